"""Reads a topic range by range, in no group of a user, and prints its messages: their values, or JSON lines."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from tubeclient.consumers.group import fetch_view
from tubeclient.keys import OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.names import reader_groups_of, topic_name
from tubeclient.positions.offset_lookup import OffsetLookup
from tubeclient.printable import printable
from tubeclient.range_reader import RangeReader, WantedRange
from tubeclient.settings import ClientSettings
from tubeclient_cli.facts.messages import message_json, messages_of
from tubeclient_cli.facts.position_moves import moves_to
from tubeclient_cli.facts.topics import no_topic, topics_known

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.flows.read_range import Pack
    from tubeclient.inlong import Record, RecordDecoder
    from tubeclient.wire.messages import Message

_GROUPS: Final = reader_groups_of("tubeclient_consume")
_POLL_SECONDS: Final = 1.0
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


def read_topic(settings: ClientSettings, wanted: Wanted, output: MessagePrinter) -> None:
    """Read ranges under reader groups: no position of a user's group moves. Raises TubeError."""
    topic = topic_name(wanted.topic)
    with topics_known(settings, [topic]):
        view = fetch_view(settings, [topic], _GROUPS)
    if not view.partitions():
        raise no_topic(topic, ())
    with (
        contextlib.closing(OffsetLookup(settings, _GROUPS)) as lookup,
        RangeReader(
            settings,
            _GROUPS,
            "consume",
            fail_on_data_loss=False,
            bad_messages="keep",
            visit_token=view.visit_token,
        ) as reader,
    ):
        bounds: Mapping[StoreKey, StoreBounds] = lookup.bounds(view)
        begins = {**moves_to(wanted.start, {}, view, lookup, bounds, wanted.time_zone).positions}
        polled = time.monotonic()
        while True:
            ends = {key: bounds[key.store].max_offset for key in begins if key.store in bounds}
            _read(reader, view, begins, ends, wanted.tags, output)
            output.warnings = [f"lost and skipped: {lost}" for lost in reader.losses]
            if output.is_full or not wanted.follow:
                return
            begins |= ends
            time.sleep(_POLL_SECONDS)
            if time.monotonic() - polled >= _LAYOUT_SECONDS and not wanted.start.named:
                polled = time.monotonic()
                view = fetch_view(settings, [topic], _GROUPS)
                begins = {**dict.fromkeys(view.partitions(), 0), **begins}
            bounds = lookup.snapshot(view).bounds  # a broker that is away is read on when it is back


def _read(
    reader: RangeReader,
    view: ClusterView,
    begins: Mapping[PartitionKey, int],
    ends: Mapping[PartitionKey, int],
    tags: frozenset[str],
    output: MessagePrinter,
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


class MessagePrinter:
    """Writes up to `most` messages, or records where there is a decoder, to a text stream and its bytes."""

    def __init__(
        self,
        stream: TextIO,
        decoder: RecordDecoder | None,
        tags: frozenset[str],
        most: int | None,
        message_id: int | None = None,
        *,
        as_json: bool,
    ) -> None:
        self._stream = stream
        self._decoder = decoder
        self._tags = tags
        self._most = most
        self._message_id = message_id
        self._as_json = as_json
        self._escapes = stream.isatty()
        self.count = 0
        self.bad = 0
        """How many of them are bad messages."""
        self.warnings: list[str] = []

    @property
    def is_full(self) -> bool:
        """Whether no more is wanted."""
        return self._most is not None and self.count >= self._most

    def write(self, pack: Pack) -> None:
        """Print a pack."""
        for number, message, record in messages_of(pack, self._decoder):
            if self._tags and message.bad_reason is None and message.tag not in self._tags:
                continue  # brokers compare only a hash of tags
            if self._message_id not in (None, message.message_id):
                continue
            if self.is_full:
                break
            self._print(pack, number, message, record)
            self.count += 1
            self.bad += message.bad_reason is not None
        self._stream.flush()

    def _print(self, pack: Pack, number: int, message: Message, record: Record | None) -> None:
        if self._as_json:
            self._stream.write(f"{json.dumps(message_json(pack, number, message, record))}\n")
            return
        body = message.body if record is None else record.body
        if self._escapes:
            self._stream.write(f"{printable(body.decode('utf-8', 'backslashreplace'))}\n")
        else:
            self._stream.flush()
            self._stream.buffer.write(body + b"\n")
