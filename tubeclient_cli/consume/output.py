"""Prints messages: their values, or JSON lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient_cli.common.printable import printable

if TYPE_CHECKING:
    from tubeclient.flows.message_pack import MessagePack
    from tubeclient.inlong import Record, RecordDecoder
    from tubeclient.wire.messages import Message

__all__ = ["Output"]


class Output:
    """Writes up to `most` messages, or records where there is a decoder, to a text stream and its bytes."""

    def __init__(
        self, stream: TextIO, decoder: RecordDecoder | None, tags: frozenset[str], most: int | None, *, as_json: bool
    ) -> None:
        self._stream = stream
        self._decoder = decoder
        self._tags = tags
        self._most = most
        self._as_json = as_json
        self._escapes = stream.isatty()
        self.count = 0
        self.is_cut = False
        """Whether a pack was not printed to its end."""
        self.warnings: list[str] = []

    @property
    def is_full(self) -> bool:
        """Whether no more is wanted."""
        return self._most is not None and self.count >= self._most

    def write(self, pack: MessagePack, start: int | None) -> None:
        """Print a pack. `start` is the offset of its first message, if its offsets can be counted."""
        for number, (message, record) in enumerate(self._rows(pack)):
            if self.is_full:
                self.is_cut = True
                return
            if self._tags and message.bad_reason is None and message.tag not in self._tags:
                continue  # brokers compare only a hash of tags
            offset = None if start is None or self._decoder is not None else start + number * INDEX_ENTRY_BYTES
            self._print(str(pack.partition), offset, message, record)
            self.count += 1

    def flush(self) -> None:
        """Everything that was printed is on its way."""
        self._stream.flush()

    def _rows(self, pack: MessagePack) -> Iterator[tuple[Message, Record | None]]:
        if self._decoder is None:
            yield from ((message, None) for message in pack)
            return
        for message, records in pack.records(self._decoder):
            if message.bad_reason is not None:
                yield message, None
            yield from ((message, record) for record in records)

    def _print(self, partition: str, offset: int | None, message: Message, record: Record | None) -> None:
        body = message.body if record is None else record.body
        if self._as_json:
            found = {"partition": partition, "offset": offset, **_described(message, body, record)}
            line = json.dumps({name: it for name, it in found.items() if name == "value" or it not in (None, "", {})})
            self._stream.write(f"{line}\n")
        elif self._escapes:
            self._stream.write(f"{printable(body.decode('utf-8', 'backslashreplace'))}\n")
        else:
            self._stream.flush()
            self._stream.buffer.write(body + b"\n")


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
