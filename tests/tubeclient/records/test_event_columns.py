"""Columns by what events say of them: of types that keep each value that the database may send."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tubeclient.records import Decoder, RecordSpec
from tubeclient.records.event_columns import canal_columns, changes_values, debezium_columns, merged_columns, no_type

ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "ARRAY<INT>": pa.list_(pa.int32()),
}


def schema_of(columns: dict[str, str]) -> pa.Schema:
    def arrow(kind: str) -> pa.DataType:
        found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
        return ARROW[kind] if found is None else pa.decimal128(int(found[1]), int(found[2]))

    return pa.schema([(name, arrow(kind)) for name, kind in columns.items()])


def base64_of(number: int, length: int) -> str:
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


TIME, DATA, CONNECT = "io.debezium.time", "io.debezium.data", "org.apache.kafka.connect.data"
DECIMAL = {"type": "bytes", "name": f"{CONNECT}.Decimal"}
NOON = datetime(2026, 11, 30, 12)
NOON_MS = int(NOON.replace(tzinfo=UTC).timestamp() * 1000)
DEBEZIUM: list[tuple[dict[str, Any], str, Any, Any]] = [
    ({"type": "boolean"}, "BOOLEAN", True, True),
    ({"type": "int16"}, "SMALLINT", -32768, -32768),
    ({"type": "int32"}, "INT", 2**31 - 1, 2**31 - 1),
    ({"type": "int64"}, "BIGINT", -(2**63), -(2**63)),
    ({"type": "float"}, "FLOAT", 0.5, 0.5),
    ({"type": "double"}, "DOUBLE", 0.1, 0.1),
    ({"type": "string"}, "STRING", "", ""),
    ({"type": "bytes"}, "BINARY", "AP8=", b"\0\xff"),
    ({"type": "array", "items": {"type": "int32"}}, "ARRAY<INT>", [1, None], [1, None]),
    ({"type": "int32", "name": f"{TIME}.Date"}, "DATE", 20_787, date(2026, 11, 30)),
    ({"type": "int32", "name": f"{CONNECT}.Date"}, "DATE", -1, date(1969, 12, 31)),
    ({"type": "string", "name": f"{TIME}.IsoDate"}, "DATE", "2026-11-30Z", date(2026, 11, 30)),
    ({"type": "int64", "name": f"{TIME}.Timestamp"}, "TIMESTAMP_NTZ", NOON_MS, NOON),
    ({"type": "int64", "name": f"{CONNECT}.Timestamp"}, "TIMESTAMP_NTZ", NOON_MS, NOON),
    ({"type": "int64", "name": f"{TIME}.MicroTimestamp"}, "TIMESTAMP_NTZ", NOON_MS * 1000, NOON),
    ({"type": "int64", "name": f"{TIME}.NanoTimestamp"}, "TIMESTAMP_NTZ", NOON_MS * 10**6, NOON),
    ({"type": "string", "name": f"{TIME}.IsoTimestamp"}, "TIMESTAMP_NTZ", "2026-11-30T12:00:00Z", NOON),
    ({"type": "string", "name": f"{TIME}.ZonedTimestamp"}, "TIMESTAMP", "2026-11-30T13:00:00+01:00",
     NOON.replace(tzinfo=UTC)),
    ({"type": "int32", "name": f"{TIME}.Time"}, "STRING", -1_500, "-00:00:01.5"),
    ({"type": "int64", "name": f"{TIME}.MicroTime"}, "STRING", 838 * 3_600 * 10**6, "838:00:00"),
    ({"type": "string", "name": f"{TIME}.ZonedTime"}, "STRING", "12:00:00Z", "12:00:00Z"),
    ({"type": "int32", "name": f"{TIME}.Year"}, "INT", 2026, 2026),
    ({**DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "10"}}, "DECIMAL(10,2)",
     base64_of(-123, 2), Decimal("-1.23")),
    ({**DECIMAL, "parameters": {"scale": "3", "connect.decimal.precision": "65"}}, "STRING",
     base64_of(10**40, 18), f"1{'0' * 37}.000"),
    ({**DECIMAL, "parameters": {"scale": "0"}}, "STRING", base64_of(7, 1), "7"),
    ({"type": "struct", "name": f"{DATA}.VariableScaleDecimal", "fields": []}, "STRING",
     {"scale": 1, "value": base64_of(15, 1)}, "1.5"),
    ({"type": "bytes", "name": f"{DATA}.Bits", "parameters": {"length": "9"}}, "STRING", "AQE=", "100000001"),
    ({"type": "string", "name": f"{DATA}.Json"}, "STRING", '{"a": 1}', '{"a": 1}'),
    ({"type": "string", "name": f"{DATA}.Enum"}, "STRING", "b", "b"),
    ({"type": "struct", "name": f"{DATA}.geometry.Point", "fields": []}, "STRING", {"x": 1.0}, '{"x": 1.0}'),
]  # fmt: skip


def test_debezium_types() -> None:
    """Each Debezium type gets a column that preserves its values."""
    fields = [{**kind, "field": f"f{at}"} for at, (kind, *_) in enumerate(DEBEZIUM)]
    images = [{"type": "struct", "field": one, "fields": fields} for one in ("before", "after")]
    schema = {"type": "struct", "fields": [*images, {"type": "string", "field": "op"}]}
    columns = debezium_columns(json.dumps(schema))
    assert list(columns.values()) == [kind for _, kind, *_ in DEBEZIUM]
    row = {f"f{at}": value for at, (_, _, value, _) in enumerate(DEBEZIUM)}
    event = {"schema": schema, "payload": {"op": "c", "after": row, "source": {}}}
    decoder = Decoder(RecordSpec(kind="debezium-json", schema=schema_of(columns)))
    found = decoder.decode(pa.array([json.dumps(event).encode()]))
    assert found.reasons.to_pylist() == [None]
    (decoded,) = found.records.to_pylist()[0]
    assert [decoded[f"f{at}"] for at in range(len(DEBEZIUM))] == [expected for *_, expected in DEBEZIUM]


MYSQL: list[tuple[str, str, Any]] = [
    ("tinyint(1)", "TINYINT", -128),
    ("TINYINT(3) UNSIGNED", "SMALLINT", 255),
    ("smallint unsigned", "INT", 65_535),
    ("mediumint(8) unsigned zerofill", "INT", 16_777_215),
    ("int(10) unsigned", "BIGINT", 4_294_967_295),
    ("integer", "INT", -1),
    ("bigint(20)", "BIGINT", -(2**63)),
    ("bigint unsigned", "DECIMAL(20,0)", Decimal(2**64 - 1)),
    ("decimal(10,2)", "DECIMAL(10,2)", Decimal("-1.20")),
    ("decimal", "DECIMAL(10,0)", Decimal(7)),
    ("numeric(5)", "DECIMAL(5,0)", Decimal(7)),
    ("decimal(65,30) unsigned", "STRING", "1.5"),
    ("float", "FLOAT", 0.5),
    ("double(8,2)", "DOUBLE", 0.1),
    ("year(4)", "INT", 2026),
    ("date", "DATE", date(2026, 11, 30)),
    ("datetime(6)", "TIMESTAMP_NTZ", NOON),
    ("timestamp", "TIMESTAMP", NOON.replace(tzinfo=UTC)),
    ("time(3)", "STRING", "-838:59:59.000"),
    ("bit(1)", "STRING", "1"),
    ("varchar(20)", "STRING", ""),
    ("enum('unsigned','b')", "STRING", "unsigned"),
    ("json", "STRING", '{"a": 1}'),
    ("blob", "STRING", "\0ÿ"),
    ("geometry", "STRING", "x"),
]


def test_mysql_types() -> None:
    """Each MySQL type gets a column that preserves its values."""
    types = {f"f{at}": kind for at, (kind, *_) in enumerate(MYSQL)}
    columns = canal_columns(json.dumps(types))
    assert list(columns.values()) == [kind for _, kind, _ in MYSQL]
    row = {f"f{at}": str(value).removesuffix("+00:00") for at, (*_, value) in enumerate(MYSQL)}
    message = {"type": "INSERT", "data": [row], "es": 1, "ts": 1, "id": 1, "mysqlType": types}
    decoder = Decoder(RecordSpec(kind="canal-json", schema=schema_of(columns)))
    found = decoder.decode(pa.array([json.dumps(message).encode()]))
    assert found.reasons.to_pylist() == [None]
    (decoded,) = found.records.to_pylist()[0]
    assert [decoded[f"f{at}"] for at in range(len(MYSQL))] == [value for *_, value in MYSQL]


@pytest.mark.parametrize("text", ["", "null", "[]", "7", "{", '{"fields": 7}', '{"fields": [{"field": "after"}]}'])
def test_what_says_no_columns(text: str) -> None:
    assert debezium_columns(text) == {}
    assert canal_columns(text) in ({}, {"fields": "STRING"})


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("TINYINT", "BIGINT", "BIGINT"),
        ("INT", "DECIMAL(5,2)", "DECIMAL(12,2)"),
        ("INT", "DECIMAL(10,0)", "DECIMAL(10,0)"),
        ("INT", "DECIMAL(9,0)", "INT"),
        ("BIGINT", "DECIMAL(19,0)", "DECIMAL(19,0)"),
        ("DECIMAL(38,0)", "DECIMAL(38,10)", "DECIMAL(38,0) or DECIMAL(38,10)"),
        ("DECIMAL(20,0)", "BIGINT", "DECIMAL(20,0)"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("FLOAT", "INT", "DOUBLE"),
        ("FLOAT", "BIGINT", "BIGINT or FLOAT"),
        ("INT", "STRING", "STRING"),
        ("DECIMAL(5,2)", "STRING", "DECIMAL(5,2) or STRING"),
        ("DATE", "TIMESTAMP", "DATE or TIMESTAMP"),
        ("DATE or TIMESTAMP", "STRING", "DATE or STRING or TIMESTAMP"),
        ("DATE or TIMESTAMP", "DATE", "DATE or TIMESTAMP"),
        ("BINARY", "STRING", "BINARY or STRING"),
        ("ARRAY<INT>", "ARRAY<INT>", "ARRAY<INT>"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
    ],
)
def test_a_column_of_two_types_has_one_for_all_values(one: str, other: str, both: str) -> None:
    assert merged_columns([{"a": one}, {"b": "INT", "a": other}]) == {"a": both, "b": "INT"}
    assert merged_columns([{"a": other}, {"a": one}]) == {"a": both}
    assert no_type(both) is (" or " in both)


@pytest.mark.parametrize(
    ("kind", "events", "changes"),
    [
        *[("INT", "BIGINT", False), ("DECIMAL(5,2)", "DOUBLE", False), ("STRING", "INT", False)],
        *[("INT", "STRING", True), ("FLOAT", "DOUBLE", True), ("DOUBLE", "BIGINT", True), ("INT", "DATE", True)],
        *[("BINARY", "STRING", True), ("STRING", "BINARY", True), ("STRING", "DATE", True), ("DATE", "STRING", True)],
        *[("TIMESTAMP_NTZ", "STRING", True), ("TIMESTAMP_NTZ", "DATE", True), ("STRING", "DECIMAL(5,2)", True)],
        *[("array<float>", "ARRAY<DOUBLE>", True), ("array<int>", "ARRAY<BIGINT>", False), ("INT", "ARRAY<INT>", True)],
        *[("timestamp", "TIMESTAMP", False), ("STRING", "INT or STRING", True)],
    ],
)
def test_changes_values(kind: str, events: str, changes: bool) -> None:
    """The answer is true only if a column silently alters some values of the other type."""
    assert changes_values(kind, events) is changes
