"""Where to read from, or move to, as users write it: earliest, latest, a time, an offset, or JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING

from tubeclient.errors import ConfigurationError, NoMessageTime

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
    from tubeclient.metadata import ClusterView
    from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["held", "offsets_of", "parse_place"]


def parse_place(text: str, where: str, zone: tzinfo, others: str = "") -> OffsetSpec:
    """`where` is the option's name, `zone` that of times without one, `others` what else the option takes.
    ConfigurationError."""
    from spark_source.offsets.offset_spec import Moment, OffsetSpec
    from spark_source.options.moment import moment_ms
    from tubeclient.keys import checked_offset, is_plain_number

    bare = text.strip()
    if bare.startswith("{") or bare.lower() in ("earliest", "latest"):
        return OffsetSpec.parse(text, where)
    if is_plain_number(bare):
        return OffsetSpec(where, checked_offset(int(bare), where))
    timestamp_ms = moment_ms(text, where, zone)
    if timestamp_ms is None:
        raise ConfigurationError(
            f"{where} is {text!r}; write earliest, latest, a time as 2026-11-21T10:31Z, {others}an offset, or JSON "
            'from partition keys to offsets, as in {"1:clicks:0": 2800}'
        )
    return OffsetSpec(where, Moment(timestamp_ms))


def offsets_of(
    spec: OffsetSpec,
    partitions: Collection[PartitionKey],
    lookup: OffsetLookup,
    view: ClusterView,
    bounds: Mapping[StoreKey, StoreBounds],
    time_zone: str,
    *,
    before: Mapping[PartitionKey, int] | None = None,
) -> Mapping[PartitionKey, int]:
    """The offsets of those of `partitions` that `spec` means; those that are named may lie outside `bounds`.

    `before` has the group's positions. Raises ConfigurationError and TubeError.
    """
    from spark_source.offsets.offset_spec import GroupPositions, resolve
    from spark_source.offsets.timestamps import without_times

    if unknown := spec.unknown(partitions):
        raise ConfigurationError(
            f"{spec.option} names partition {unknown[0]}, which there is not", condition="PARTITION_NOT_FOUND"
        )
    meant = sorted(partitions) if spec.default is not None else sorted(dict(spec.named))
    try:
        spec = without_times(spec, meant, lookup, view, bounds, time_zone)
    except NoMessageTime as error:
        raise ConfigurationError(
            f"{spec.option} uses the times that producers write on messages, but {error}. Name earliest, latest, or an "
            f'offset by partition: {{"{error.partition}": 2800}}'
        ) from error
    return resolve(spec, meant, bounds, lambda: GroupPositions(before or {}))


def held(positions: Mapping[PartitionKey, int], bounds: Mapping[StoreKey, StoreBounds]) -> dict[PartitionKey, int]:
    """The nearest offsets that the brokers hold."""
    return {key: bounds[key.store].nearest(at) for key, at in positions.items()}
