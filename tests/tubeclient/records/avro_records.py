"""Avro schemas, and records of them."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro

from tubeclient.records.avro_schema import columns_of_schema
from tubeclient.records.spec import RecordSpec

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


def record(*types: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A schema with fields of these types: a, b and so on."""
    fields = [{"name": letter, "type": one} for letter, one in zip("abcdefghijklmnopqrst", types, strict=False)]
    return {"type": "record", "name": name, "fields": fields, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def of(*types: Any, **options: str) -> RecordSpec:
    """Of `record(*types)`, or of the whole schema."""
    is_whole = len(types) == 1 and isinstance(types[0], dict) and types[0]["type"] == "record"
    schema = json.dumps(types[0] if is_whole else record(*types))
    columns = columns_of_schema(schema, options)
    return RecordSpec(kind="avro", schema=columns, descriptor=schema.encode(), options=options)


def written(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """A record as fastavro writes it."""
    file = BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return file.getvalue()
