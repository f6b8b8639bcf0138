"""Messages, as `tubeclient consume --json` prints them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    from datetime import tzinfo

    from tubeclient.flows.read_range import Pack
    from tubeclient.inlong import Record, RecordDecoder
    from tubeclient.wire.messages import Message


def decoder_of(payload: str, zone: tzinfo) -> RecordDecoder | None:
    """What messages hold; None: themselves. ConfigurationError."""
    if payload == "raw":
        return None
    if payload not in ("inlong", "auto"):
        raise ConfigurationError(f"--payload is {payload!r}; write raw, inlong or auto")
    from tubeclient.inlong import RecordDecoder

    return RecordDecoder("auto" if payload == "auto" else "inlong", zone=zone)


def messages_of(pack: Pack, decoder: RecordDecoder | None) -> Iterator[tuple[int, Message, Record | None]]:
    """Each message with its number in the pack; with a decoder each of its records."""
    if decoder is None:
        yield from ((number, message, None) for number, message in enumerate(pack))
        return
    for number, (message, records) in enumerate(pack.records(decoder)):
        if message.bad_reason is not None:
            yield number, message, None
        yield from ((number, message, record) for record in records)


def message_json(pack: Pack, number: int, message: Message, record: Record | None) -> dict[str, Any]:
    """A message, or a record of it: where it is, its value (base64 if it is not UTF-8), and what it has of tag,
    attributes, time, InLong's names and fault. `number` is its place in the pack."""
    found = {"partition": str(pack.partition), **_place(pack, number), **_described(message, record)}
    return {name: it for name, it in found.items() if name == "value" or it not in (None, "", {})}


def _place(pack: Pack, number: int) -> Mapping[str, int]:
    """Where a message lies in its store's index. Messages carry no offset. If each entry between start and end is a
    message of the pack, they can be counted; else entries of other partitions or other tags lie between them."""
    if pack.end - pack.start != len(pack) * INDEX_ENTRY_BYTES:
        return {"packStart": pack.start, "packEnd": pack.end}
    return {"offset": pack.start + number * INDEX_ENTRY_BYTES}


def _described(message: Message, record: Record | None) -> Mapping[str, Any]:
    body = message.body if record is None else record.body
    try:
        value: dict[str, Any] = {"value": body.decode()}
    except UnicodeDecodeError:
        value = {"base64": base64.b64encode(body).decode()}
    return {
        "messageId": message.message_id,
        **value,
        "tag": message.tag,
        "attributes": message.attributes if record is None or not record.attributes else dict(record.attributes),
        "time": message.time,
        "inlong": None if record is None else _inlong(record),
        "bad": message.bad_reason,
    }


def _inlong(record: Record) -> dict[str, Any]:
    group_id, stream_id, time_ms = record.origin
    return {"groupId": group_id, "streamId": stream_id, "dataTimeMs": time_ms}
