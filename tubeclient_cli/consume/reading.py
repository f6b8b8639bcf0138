"""Reads a topic range by range, in no group of a user, and prints its messages: their values, or JSON lines."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

from tubeclient.consumers.group import fetch_view
from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.names import reader_groups_of, topic_name
from tubeclient.positions.offset_lookup import OffsetLookup
from tubeclient.printable import printable
from tubeclient.range_reader import RangeReader, WantedRange
from tubeclient.settings import ClientSettings
from tubeclient_cli.common.cluster import no_topic, topics_known
from tubeclient_cli.common.places import moves_to

if TYPE_CHECKING:
    from datetime import tzinfo

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


def decoder_of(payload: str, zone: tzinfo) -> RecordDecoder | None:
    """What messages hold; None: themselves. ConfigurationError."""
    if payload == "raw":
        return None
    if payload not in ("inlong", "auto"):
        raise ConfigurationError(f"--payload is {payload!r}; write raw, inlong or auto")
    from tubeclient.inlong import RecordDecoder

    return RecordDecoder("auto" if payload == "auto" else "inlong", zone=zone)


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
        for number, message, record in self._rows(pack):
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

    def _rows(self, pack: Pack) -> Iterator[tuple[int, Message, Record | None]]:
        """Each message with its number in the pack, or each of its records."""
        if self._decoder is None:
            yield from ((number, message, None) for number, message in enumerate(pack))
            return
        for number, (message, records) in enumerate(pack.records(self._decoder)):
            if message.bad_reason is not None:
                yield number, message, None
            yield from ((number, message, record) for record in records)

    def _print(self, pack: Pack, number: int, message: Message, record: Record | None) -> None:
        body = message.body if record is None else record.body
        if self._as_json:
            found = {"partition": str(pack.partition), **_place(pack, number), **_described(message, body, record)}
            line = json.dumps({name: it for name, it in found.items() if name == "value" or it not in (None, "", {})})
            self._stream.write(f"{line}\n")
        elif self._escapes:
            self._stream.write(f"{printable(body.decode('utf-8', 'backslashreplace'))}\n")
        else:
            self._stream.flush()
            self._stream.buffer.write(body + b"\n")


def _place(pack: Pack, number: int) -> Mapping[str, int]:
    """Where a message lies in its store's index. Messages carry no offset. If each entry between start and end is a
    message of the pack, they can be counted; else entries of other partitions or other tags lie between them."""
    if pack.end - pack.start != len(pack) * INDEX_ENTRY_BYTES:
        return {"packStart": pack.start, "packEnd": pack.end}
    return {"offset": pack.start + number * INDEX_ENTRY_BYTES}


def _described(message: Message, body: bytes, record: Record | None) -> Mapping[str, Any]:
    try:
        value: dict[str, Any] = {"value": body.decode()}
    except UnicodeDecodeError:
        value = {"base64": base64.b64encode(body).decode()}
    return {
        "messageId": message.message_id,
        **value,
        "tag": message.tag,
        "attributes": message.attributes if record is None else dict(record.attributes),
        "time": message.time,
        "inlong": None if record is None else _inlong(record),
        "bad": message.bad_reason,
    }


def _inlong(record: Record) -> dict[str, Any]:
    group_id, stream_id, time_ms = record.origin
    return {"groupId": group_id, "streamId": stream_id, "dataTimeMs": time_ms}
