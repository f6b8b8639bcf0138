"""Prints messages: their values, or JSON lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient_cli.common.printable import printable

if TYPE_CHECKING:
    from tubeclient.flows.read_range import Pack
    from tubeclient.inlong import Record, RecordDecoder
    from tubeclient.wire.messages import Message

__all__ = ["Output"]


class Output:
    """Writes up to `most` messages, or records where there is a decoder, to a text stream and its bytes."""

    def __init__(
        self,
        stream: TextIO,
        decoder: RecordDecoder | None,
        tags: frozenset[str],
        most: int | None,
        *,
        as_json: bool,
    ) -> None:
        self._stream = stream
        self._decoder = decoder
        self._tags = tags
        self._most = most
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
