"""Reads a topic as nobody, range by range."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tubeclient.errors import ConfigurationError, DeadlineExceeded, TopicNotDeployed
from tubeclient.group import fetch_view
from tubeclient.keys import OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.names import reader_groups_of, topic_name
from tubeclient.offset_lookup import OffsetLook, OffsetLookup
from tubeclient.range_reader import RangeReader, WantedRange
from tubeclient.settings import ClientSettings
from tubeclient.web_port import near_topics
from tubeclient_cli.common.cluster import no_topic
from tubeclient_cli.common.places import held, offsets_of
from tubeclient_cli.consume.output import Output
from tubeclient_cli.consume.wanted import Wanted, listed

if TYPE_CHECKING:
    from datetime import tzinfo

    from tubeclient.inlong import RecordDecoder

__all__ = ["as_nobody", "decoder_of"]

_GROUPS: Final = reader_groups_of("tubeclient_consume")
_LOOK_SECONDS: Final = 1.0
"""How often --follow asks whether there is more, and whether silent brokers are back."""
_LAYOUT_SECONDS: Final = 30.0
"""How often it asks whether there are more partitions."""


def decoder_of(payload: str, zone: tzinfo) -> RecordDecoder | None:
    """What messages hold; None: themselves. ConfigurationError."""
    if payload == "raw":
        return None
    if payload not in ("inlong", "auto"):
        raise ConfigurationError(f"--payload is {payload!r}; write raw, inlong or auto")
    from tubeclient.inlong import RecordDecoder

    return RecordDecoder("auto" if payload == "auto" else "inlong", zone=zone)


def as_nobody(settings: ClientSettings, wanted: Wanted, output: Output, tell: Callable[[str], None]) -> None:
    """Read ranges under reader groups: no position of a user's group moves. `tell` gets a text if it has to wait.

    Brokers that do not answer are waited for after the others were read. Raises TubeError; DeadlineExceeded names the
    partitions of those that gave no answer for `retry_limit_ms` more.
    """
    topic = topic_name(wanted.topic)
    try:
        view = fetch_view(settings, [topic], _GROUPS)
    except TopicNotDeployed:
        raise no_topic(topic, near_topics(settings, [topic])) from None
    partitions = _chosen(view, wanted)
    with contextlib.closing(OffsetLookup(settings, _GROUPS, bad_messages="keep")) as lookup:
        look = lookup.look(view)
        begins: dict[PartitionKey, int] = {}
        waiting = set(partitions if wanted.start.default is not None else dict(wanted.start.named))
        give_up = math.inf
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
                if waiting:
                    begins |= _begins(waiting, partitions, lookup, view, look.bounds, wanted)
                    waiting -= begins.keys()
                ends = {key: look.bounds[key.store].max_offset for key in begins if key.store in look.bounds}
                _read(reader, view, begins, ends, wanted.tags, output)
                output.warnings = [f"lost and skipped: {lost}" for lost in reader.losses]
                if output.is_full or not (wanted.follow or waiting):
                    return
                if waiting and give_up == math.inf:
                    give_up = time.monotonic() + settings.retry_limit_ms / 1000
                    patience = "" if wanted.follow else f" up to {settings.retry_limit_ms / 1000:.0f} s"
                    tell(f"waiting{patience} for {listed(waiting)}: {_why(look, waiting)}")
                if not wanted.follow and time.monotonic() >= give_up:
                    raise DeadlineExceeded(f"{listed(waiting)} could not be read: {_why(look, waiting)}")
                begins |= ends
                time.sleep(_LOOK_SECONDS)
                if wanted.follow and time.monotonic() - looked >= _LAYOUT_SECONDS and not wanted.start.named:
                    looked = time.monotonic()
                    view = fetch_view(settings, [topic], _GROUPS)
                    new = set(_chosen(view, wanted)) - begins.keys() - waiting
                    begins |= dict.fromkeys(new, 0)
                look = lookup.look(view)
                if not wanted.follow:
                    begins = {}


def _begins(
    waiting: Collection[PartitionKey],
    partitions: Collection[PartitionKey],
    lookup: OffsetLookup,
    view: ClusterView,
    bounds: Mapping[StoreKey, StoreBounds],
    wanted: Wanted,
) -> dict[PartitionKey, int]:
    """Where those that wait begin, as far as their brokers have answered."""
    there = [key for key in waiting if key in partitions and key.store in bounds]
    # What no broker has stays, and is refused.
    named = tuple((key, place) for key, place in wanted.start.named if key in there or key not in partitions)
    start = replace(wanted.start, named=named)
    return held(offsets_of(start, there, lookup, view, bounds, wanted.time_zone), bounds)


def _why(look: OffsetLook, waiting: Collection[PartitionKey]) -> str:
    """What the brokers of these partitions said last."""
    broker_ids = sorted({key.broker_id for key in waiting})
    said = [str(look.silent[broker_id]) for broker_id in broker_ids if broker_id in look.silent]
    return said[0] if said else "their brokers do not have them"


def _chosen(view: ClusterView, wanted: Wanted) -> list[PartitionKey]:
    there = view.partitions()
    if not there:
        raise no_topic(wanted.topic, "")
    keys = [PartitionKey.parse(text) for text in wanted.partitions]
    for key in keys:
        if key not in there:
            raise ConfigurationError(
                f"--partition {key} is not one of topic {wanted.topic}; it has {', '.join(map(str, there[:5]))}"
                + (f" and {len(there) - 5} more" if len(there) > 5 else ""),
                condition="PARTITION_NOT_FOUND",
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
                output.write(pack, pack.end)
                output.flush()
                if output.is_full:
                    return
