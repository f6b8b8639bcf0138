"""An Avro schema, and records of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

MADE: Final = {"name": "made", "type": {"type": "long", "logicalType": "timestamp-micros"}}
USER: Final[Any] = {
    "type": "record",
    "name": "User",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NONE", "BUY"]}},
        {"name": "counts", "type": {"type": "array", "items": "int"}},
        {"name": "first", "type": ["null", {"type": "record", "name": "Item", "fields": [MADE]}]},
    ],
}


def avsc(folder: Path, schema: Any = USER) -> str:
    """The path of a file with the schema; a text is written as it is."""
    made = folder / "user.avsc"
    made.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return str(made)


def zigzag(number: int) -> bytes:
    """An int or a long of Avro."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def user(id: int = 1, name: str | None = "x", at: int = 1_700_000_000_000, kind: int = 1, *counts: int) -> bytes:
    """A record of USER, as on a queue: without a container."""
    text = b"" if name is None else zigzag(len(name.encode())) + name.encode()
    block = zigzag(len(counts)) + b"".join(map(zigzag, counts)) if counts else b""
    return zigzag(id) + zigzag(int(name is not None)) + text + zigzag(at) + zigzag(kind) + block + b"\0\0"
