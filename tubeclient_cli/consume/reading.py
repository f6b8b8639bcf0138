"""Reads a topic: as nobody, range by range, or as a group, which then moves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tubeclient.errors import ConfigurationError, TopicNotDeployed
from tubeclient.flows.read_plan import StartFrom
from tubeclient.group import fetch_view
from tubeclient.keys import OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.names import reader_groups_of, topic_name
from tubeclient.offset_lookup import OffsetLookup
from tubeclient.pull_consumer import PullConsumer
from tubeclient.range_reader import RangeReader, WantedRange
from tubeclient.settings import ClientSettings
from tubeclient_cli.common.places import offsets_of
from tubeclient_cli.consume.output import Output

if TYPE_CHECKING:
    from datetime import tzinfo

    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.inlong import RecordDecoder

__all__ = ["Wanted", "as_group", "as_nobody", "decoder_of"]

_GROUPS: Final = reader_groups_of("tubeclient_consume")
_LOOK_SECONDS: Final = 1.0
"""How often --follow asks whether there is more."""
_LAYOUT_SECONDS: Final = 30.0
"""How often it asks whether there are more partitions."""
_QUIET_MS: Final = 3_000
"""So long without a message is the end for a group that does not follow."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read."""

    topic: str
    tags: frozenset[str]
    partitions: tuple[str, ...]
    """Keys; empty: all."""
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
    """Read ranges under reader groups: no position of a user's group moves. Raises TubeError."""
    topic = topic_name(wanted.topic)
    try:
        view = fetch_view(settings, [topic], _GROUPS)
    except TopicNotDeployed:
        raise _no_topic(topic) from None
    partitions = _chosen(view, wanted)
    with contextlib.closing(OffsetLookup(settings, _GROUPS, bad_messages="keep")) as lookup:
        bounds: Mapping[StoreKey, StoreBounds] = lookup.bounds(view)
        begins = offsets_of(wanted.start, partitions, lookup, view, bounds, wanted.time_zone)
        looked = time.monotonic()
        with RangeReader(
            settings,
            _GROUPS,
            "consume",
            fail_on_data_loss=False,
            bad_messages="keep",
            visit_token=view.visit_token,
        ) as reader:
            while True:
                ends = {key: bounds[key.store].max_offset for key in begins if key.store in bounds}
                _read(reader, view, begins, ends, wanted.tags, output)
                output.warnings = [f"lost and skipped: {lost}" for lost in reader.losses]
                if output.is_full or not wanted.follow:
                    return
                begins |= ends
                time.sleep(_LOOK_SECONDS)
                if time.monotonic() - looked >= _LAYOUT_SECONDS and not wanted.start.named:
                    looked = time.monotonic()
                    view = fetch_view(settings, [topic], _GROUPS)
                    new = set(_chosen(view, wanted)) - begins.keys()
                    begins |= dict.fromkeys(new, 0)
                bounds = lookup.look(view).bounds


def as_group(settings: ClientSettings, group: str, wanted: Wanted, output: Output) -> None:
    """Read as a group from its position, and confirm what was printed. Raises TubeError."""
    start: StartFrom = "latest" if wanted.start.default == "latest" else "earliest"
    topics = {topic_name(wanted.topic): wanted.tags}
    with PullConsumer(settings, group, topics, start_from=start, bad_messages="keep") as consumer:
        while not output.is_full:
            delivery = consumer.get(timeout_ms=_QUIET_MS)
            if delivery is not None:
                # A pack is confirmed as a whole or not at all: what is cut off comes again.
                output.write(delivery, None)
                output.flush()
                consumer.confirm(delivery, consumed=not output.is_cut)
            elif not wanted.follow:
                return


def _no_topic(name: str) -> ConfigurationError:
    return ConfigurationError(f"the cluster has no topic {name}; `tubeclient topics list` shows what there is")


def _chosen(view: ClusterView, wanted: Wanted) -> list[PartitionKey]:
    there = view.partitions()
    if not there:
        raise _no_topic(wanted.topic)
    keys = [PartitionKey.parse(text) for text in wanted.partitions]
    for key in keys:
        if key not in there:
            raise ConfigurationError(
                f"--partition {key} is not one of topic {wanted.topic}; it has {', '.join(map(str, there[:5]))}"
                + (f" and {len(there) - 5} more" if len(there) > 5 else "")
            )
    return keys or there


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
                alone = view.layout_of(pack.partition)
                exact = not tags and alone is not None and alone.partitions_per_store == 1
                output.write(pack, pack.start if exact else None)
                output.flush()
                if output.is_full:
                    return
