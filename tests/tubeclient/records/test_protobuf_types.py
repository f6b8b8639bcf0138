"""Descriptor files, the columns of a message, and columns that do not fit it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.tubeclient.records.protos import OLD, POINT, SHOP, descriptor, of
from tests.tubeclient.records.reading import MOMENT
from tubeclient.errors import ConfigurationError
from tubeclient.records.decoder import Decoder
from tubeclient.records.protobuf_types import columns_of_message, message_type
from tubeclient.records.spec import RecordSpec


@pytest.mark.parametrize(
    ("message", "columns", "said"),
    [
        ("Nobody", {}, "has no message 'Nobody'; it has shop.Click, shop.Point, shop.Tree, shop.Bare, "),
        ("Click", {"ident": pa.int64()}, "column ident is not a field of message shop.Click, which has id, name"),
        ("Click", {"Id": pa.int64()}, "column Id is not a field of message shop.Click"),
        (
            "Click",
            {"point": pa.struct([("z", pa.int32())])},
            "column point.z is not a field of .*Point, which has x, y",
        ),
        ("Bare", {"x": pa.int32()}, "shop.Bare, which has none"),
        ("Click", {"id": pa.string()}, "column id is string, but field shop.Click.id is int64; make it BIGINT"),
        ("Click", {"big": pa.float64()}, r"but field shop.Click.big is uint64; make it DECIMAL\(20,0\)"),
        ("Click", {"ratio": pa.float32()}, "double; make it DOUBLE"),
        ("Click", {"ratio": pa.decimal128(10, 2)}, "double; make it DOUBLE"),
        ("Click", {"name": pa.binary()}, "string; make it STRING"),
        ("Click", {"raw": pa.string()}, "bytes; make it BINARY"),
        ("Click", {"ok": pa.int8()}, "bool; make it BOOLEAN"),
        ("Click", {"counts": pa.int32()}, "repeated sint32; make it ARRAY<INT>"),
        ("Click", {"counts": pa.list_(pa.string())}, "make it ARRAY<INT>"),
        ("Click", {"id": pa.list_(pa.int64())}, "int64; make it BIGINT"),
        ("Click", {"tags": pa.list_(POINT)}, "map<string, int64>; make it MAP<STRING,BIGINT>"),
        ("Click", {"tags": pa.map_(pa.int64(), pa.int64())}, "make it MAP<STRING,BIGINT>"),
        ("Click", {"tags": pa.map_(pa.string(), pa.string())}, "make it MAP<STRING,BIGINT>"),
        ("Click", {"id": pa.map_(pa.string(), pa.int64())}, "int64; make it BIGINT"),
        ("Click", {"maybe": pa.string()}, "google.protobuf.Int64Value; make it BIGINT"),
        ("Click", {"at": pa.timestamp("us")}, "google.protobuf.Timestamp; make it TIMESTAMP"),
        ("Click", {"point": pa.int64()}, "shop.Point; make it STRUCT<X:INT,Y:INT>"),
        ("Tree", {"children": pa.int64()}, "but field shop.Tree.children is repeated shop.Tree$"),
        ("Click", {"id": pa.date32()}, "column id is date"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit(message: str, columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Decoder(of(message, columns))


def test_descriptor_files_that_are_none() -> None:
    for file, said in {
        b"syntax = 'proto3'; message X {}": "the file is not a descriptor file; make one with protoc --include_imports",
        b"": "has no message 'Click'; it has no message$",
        descriptor(SHOP, OLD, imports=False): "lacks google/protobuf/any.proto, which it imports; make it with",
        descriptor(SHOP, "syntax='proto3'; package b; message Click{}"): "several messages Click; it has .* b.Click",
        descriptor(SHOP).replace(b".shop.Point", b".shop.Pound"): (
            "the descriptor file cannot be used: .*; make it with"
        ),
    }.items():  # fmt: skip
        with pytest.raises(ConfigurationError, match=said):
            message_type(file, "Click")


def test_the_columns_of_a_message() -> None:
    file = descriptor(SHOP, OLD)
    found = columns_of_message(message_type(file, "shop.Click"))
    expected = {
        "wide": pa.int64(),
        "big": pa.decimal128(20, 0),
        "counts": pa.list_(pa.int32()),
        "color": pa.string(),
        "at": MOMENT,
        "maybe": pa.int64(),
        "more": pa.string(),
        "spots": pa.map_(pa.int32(), POINT),
        "took": pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())]),
    }
    assert {name: found.field(name).type for name in expected} == expected
    assert all(one.nullable for one in found)
    Decoder(RecordSpec(kind="protobuf", schema=found, descriptor=file, message="shop.Click"))
    for name, said in {"Bare": "has no fields", "Tree": "shop.Tree contains itself, in Tree.children"}.items():
        with pytest.raises(ConfigurationError, match=said):
            columns_of_message(message_type(file, name))
