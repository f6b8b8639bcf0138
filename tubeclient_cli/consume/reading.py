"""Reads a topic as nobody, range by range."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tubeclient.consumers.group import fetch_view
from tubeclient.errors import ConfigurationError, TopicNotDeployed
from tubeclient.keys import OffsetRange, PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.names import reader_groups_of, topic_name
from tubeclient.positions.offset_lookup import OffsetLook, OffsetLookup
from tubeclient.range_reader import RangeReader, WantedRange
from tubeclient.settings import ClientSettings
from tubeclient_cli.common.cluster import no_topic
from tubeclient_cli.common.places import held, offsets_of
from tubeclient_cli.consume.output import Output

if TYPE_CHECKING:
    from datetime import tzinfo

    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.inlong import RecordDecoder

__all__ = ["Wanted", "as_nobody", "decoder_of"]

_GROUPS: Final = reader_groups_of("tubeclient_consume")
_LOOK_SECONDS: Final = 1.0
"""How often --follow asks whether there is more."""
_LAYOUT_SECONDS: Final = 30.0
"""How often it asks whether there are more partitions."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read."""

    topic: str
    tags: frozenset[str]
    start: OffsetSpec
    time_zone: str
    """Of the producers' clocks; an IANA name."""
    follow: bool


def decoder_of(payload: str, zone: tzinfo) -> RecordDecoder | None:
    """What messages hold; None: themselves. ConfigurationError."""
    if payload == "raw":
        return None
    if payload not in ("inlong", "auto"):
        raise ConfigurationError(f"--payload is {payload!r}; write raw, inlong or auto")
    from tubeclient.inlong import RecordDecoder

    return RecordDecoder("auto" if payload == "auto" else "inlong", zone=zone)


def as_nobody(settings: ClientSettings, wanted: Wanted, output: Output) -> None:
    """Read ranges under reader groups: no position of a user's group moves. Raises TubeError, also for a broker that
    does not answer; then what the others have was printed before."""
    topic = topic_name(wanted.topic)
    try:
        view = fetch_view(settings, [topic], _GROUPS)
    except TopicNotDeployed:
        raise no_topic(topic, "") from None
    if not view.partitions():
        raise no_topic(topic, "")
    with (
        contextlib.closing(OffsetLookup(settings, _GROUPS, bad_messages="keep")) as lookup,
        RangeReader(
            settings,
            _GROUPS,
            "consume",
            fail_on_data_loss=False,
            bad_messages="keep",
            visit_token=view.visit_token,
        ) as reader,
    ):
        look = lookup.look(view)
        begins, missing = _begins(wanted, lookup, view, look)
        if missing and wanted.follow:
            raise look.silent[missing[0].broker_id]
        looked = time.monotonic()
        while True:
            ends = {key: look.bounds[key.store].max_offset for key in begins if key.store in look.bounds}
            _read(reader, view, begins, ends, wanted.tags, output)
            output.warnings = [f"lost and skipped: {lost}" for lost in reader.losses]
            if output.is_full:
                return
            if not wanted.follow:
                if missing:
                    raise look.silent[missing[0].broker_id]
                return
            begins |= ends
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - looked >= _LAYOUT_SECONDS and not wanted.start.named:
                looked = time.monotonic()
                view = fetch_view(settings, [topic], _GROUPS)
                begins = {**dict.fromkeys(view.partitions(), 0), **begins}
            look = lookup.look(view)


def _begins(
    wanted: Wanted, lookup: OffsetLookup, view: ClusterView, look: OffsetLook
) -> tuple[dict[PartitionKey, int], list[PartitionKey]]:
    """Where to begin, as far as the brokers have answered; and the partitions of those that have not."""
    start, partitions = wanted.start, view.partitions()
    there = [key for key in partitions if key.broker_id not in look.silent]
    meant = partitions if start.default is not None else sorted(dict(start.named))
    # What no broker has stays, and is refused.
    named = tuple((key, place) for key, place in start.named if key in there or key not in partitions)
    start = replace(start, named=named)
    begins = held(offsets_of(start, there, lookup, view, look.bounds, wanted.time_zone), look.bounds)
    return begins, [key for key in meant if key in partitions and key.broker_id in look.silent]


def _read(
    reader: RangeReader,
    view: ClusterView,
    begins: Mapping[PartitionKey, int],
    ends: Mapping[PartitionKey, int],
    tags: frozenset[str],
    output: Output,
) -> None:
    ranges = [
        WantedRange(view.broker_of(key), OffsetRange(key, begins[key], end), tags)
        for key, end in ends.items()
        if end > begins[key]
    ]
    with contextlib.closing(reader.read_all(ranges)) as found:
        for _, pack in found:
            if pack is not None:
                output.write(pack)
                if output.is_full:
                    return
