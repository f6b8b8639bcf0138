"""Where to read from, or move to, as users write it: a word, a time, an offset or JSON; and what would move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

from tubeclient.errors import ConfigurationError, NoMessageTime
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.keys import StoreBounds, StoreKey
    from tubeclient.metadata import ClusterView
    from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["Moves", "PositionMove", "moves_to", "parse_offset_spec"]


def parse_offset_spec(text: str, where: str, zone: tzinfo) -> OffsetSpec:
    """`where` is the option's name, `zone` that of times without one. ConfigurationError."""
    from spark_source.offsets.offset_spec import Moment, OffsetSpec
    from spark_source.options.parsers import moment_ms
    from tubeclient.keys import checked_offset, is_plain_number

    bare = text.strip()
    if bare.startswith("{") or bare.lower() in ("earliest", "latest"):
        return OffsetSpec.parse(text, where)
    if is_plain_number(bare):
        return OffsetSpec(where, checked_offset(int(bare), where))
    timestamp_ms = moment_ms(text, where, zone)
    if timestamp_ms is None:
        raise ConfigurationError(
            f"{where} is {text!r}; write earliest, latest, a time such as 2026-11-21T10:31Z, an offset, or JSON from "
            'partition keys to offsets, as in {"1:clicks:0": 2800}'
        )
    return OffsetSpec(where, Moment(timestamp_ms))


class PositionMove(NamedTuple):
    """One partition; index offsets, None if there was no position."""

    partition: PartitionKey
    start: int | None
    end: int

    def row(self) -> dict[str, Any]:
        """For JSON and tables. `messagesAtMost` lie between, less than 0 for a move back; None if there was none."""
        known = None if self.start is None else (self.end - self.start) // INDEX_ENTRY_BYTES
        return {"partition": str(self.partition), "from": self.start, "to": self.end, "messagesAtMost": known}


class Moves(NamedTuple):
    """What moves if a group goes to a place."""

    positions: Mapping[PartitionKey, int]
    """All of the group's positions afterwards."""
    ends: Mapping[PartitionKey, int]
    """The ends of the brokers' data."""
    moves: Sequence[PositionMove]
    """The partitions that move, sorted."""
    warnings: Sequence[str]


def moves_to(
    spec: OffsetSpec,
    before: Mapping[PartitionKey, int],
    view: ClusterView,
    lookup: OffsetLookup,
    bounds: Mapping[StoreKey, StoreBounds],
    time_zone: str,
) -> Moves:
    """What moves if a group at `before` goes to `spec`; partitions that it does not mean stay. An offset that a broker
    does not hold becomes the nearest that it holds. Raises ConfigurationError and TubeError."""
    from spark_source.offsets.offset_spec import resolve, without_times

    partitions = view.partitions()
    if unknown := spec.unknown(partitions):
        raise ConfigurationError(
            f"{spec.option} names partition {unknown[0]}, which does not exist", condition="PARTITION_NOT_FOUND"
        )
    meant = sorted(partitions) if spec.default is not None else sorted(dict(spec.named))
    try:
        spec = without_times(spec, meant, lookup, view, bounds, time_zone)
    except NoMessageTime as error:
        raise ConfigurationError(
            f"{spec.option} uses the times that producers write on messages, but {error}. Name earliest, latest, or an "
            f'offset by partition: {{"{error.partition}": 2800}}'
        ) from error
    wanted = {**before, **resolve(spec, meant, bounds, lambda: before)}
    limits = {key: bounds[key.store] for key in partitions}
    after = {key: limits[key].nearest(at) if key in limits else at for key, at in wanted.items()}
    warnings = [f"{key} is no longer in the cluster" for key in wanted if key not in limits]
    warnings += [
        f"{key} would be at {at}, but the broker holds {limits[key].min_offset} to {limits[key].max_offset}; using "
        f"{after[key]}"
        for key, at in wanted.items()
        if after[key] != at
    ]
    ends = {key: limits[key].max_offset for key in after if key in limits}
    moves = [PositionMove(key, before.get(key), at) for key, at in sorted(after.items()) if before.get(key) != at]
    return Moves(after, ends, moves, warnings)
