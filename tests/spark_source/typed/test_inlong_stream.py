"""Stream definitions of InLong's Manager."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_source.typed.inlong_stream import StreamFormat, parse_stream


def stream(*fields: tuple[str, str] | dict[str, Any], **more: Any) -> str:
    written = [
        dict(zip(("fieldName", "fieldType"), one, strict=True)) if isinstance(one, tuple) else one for one in fields
    ]
    return json.dumps({"inlongStreamId": "clicks", "dataType": "csv", "fieldList": written, **more})


def test_a_stream_says_columns_separator_escape_and_encoding() -> None:
    text = stream(("id", "bigint"), ("na`me", "VARCHAR"), dataSeparator="124", dataEscapeChar="92", dataEncoding="GBK")
    found = parse_stream(text)
    assert found == StreamFormat("csv", "`id` BIGINT, `na``me` STRING", "|", "\\", "GBK", {})
    assert parse_stream(json.dumps({"success": True, "data": json.loads(text)})) == found


def test_csv_of_inlong_has_no_quotes() -> None:
    assert parse_stream(stream(("id", "int"), dataSeparator="|")).options == {"quote": ""}


def test_kv_and_json() -> None:
    text = stream(("id", "int"), dataType="KV", dataSeparator="38", kvSeparator="58")
    assert parse_stream(text) == StreamFormat("kv", "`id` INT", "&", options={"kvSeparator": ":"})
    assert parse_stream(text, "json") == StreamFormat("json", "`id` INT")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *(("Integer", "INT"), ("INT8", "TINYINT"), ("SHORT", "SMALLINT"), ("LONG", "BIGINT"), ("FLOAT64", "DOUBLE")),
        *(("varchar(20)", "STRING"), ("DECIMAL(10,2)", "DECIMAL(10,2)"), ("LARGEINT", "DECIMAL(38,0)")),
        *(("DATETIME", "TIMESTAMP"), ("date", "DATE"), ("TIME", "STRING"), ("BOOLEAN", "BOOLEAN"), ("float", "FLOAT")),
    ],
)
def test_types(kind: str, expected: str) -> None:
    assert parse_stream(stream(("x", kind))).ddl == f"`x` {expected}"


def test_fields_that_are_not_in_the_body_are_left_out() -> None:
    others = [{"fieldName": "t", "fieldType": "x", name: 1} for name in ("isMetaField", "isPredefinedField")]
    assert parse_stream(stream(("id", "int"), *others)).ddl == "`id` INT"


def test_formats_of_fields() -> None:
    at = {"fieldName": "at", "fieldType": "TIMESTAMP", "fieldFormat": "yyyyMMddHHmmss"}
    on = {"fieldName": "on", "fieldType": "DATE", "fieldFormat": "SQL"}
    price = {"fieldName": "price", "fieldType": "DECIMAL", "fieldFormat": '{"precision": 10, "scale": 2}'}
    found = parse_stream(stream(at, on, price), "json")
    assert found.ddl == "`at` TIMESTAMP, `on` DATE, `price` DECIMAL(10,2)"
    assert found.options == {"timestampFormat": "yyyyMMddHHmmss"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "has no fieldList"),
        ("[" * 100_000, "is not JSON"),
        (stream(("id", "int"), dataSeparator="1" * 30), "dataSeparator 11111111111111111111, which is no character"),
        (stream(("id", "int"), dataEscapeChar="1114112"), "dataEscapeChar 1114112, which is no character"),
        (stream(), "has no fields"),
        (stream(("id", "int"), dataType="canal"), "has dataType 'canal'; say format"),
        (stream(("id", "int"), dataType="PB"), "records, which are protobuf, which can only be had as raw"),
        (stream(("id", "int"), dataType="AVRO"), "records, which are Avro; give schema, an .avsc file"),
        (stream(("x", "MAP")), "the field x of type MAP"),
        (stream(("x", "DECIMAL")), "precision of the DECIMAL field x"),
        (stream({"fieldType": "int"}), "a field without fieldName"),
        (stream({"fieldName": "t", "fieldType": "TIMESTAMP", "fieldFormat": "SECONDS"}), "times as numbers"),
        (
            stream(("a", "TIMESTAMP"), {"fieldName": "b", "fieldType": "TIMESTAMP", "fieldFormat": "yyyy"}),
            "TIMESTAMP in several formats",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_stream(text)
