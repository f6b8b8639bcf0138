"""Avro schemas have the columns that Spark's from_avro has for them, or are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tubeclient.records.avro_records import fixed, logical, record
from tubeclient.errors import ConfigurationError
from tubeclient.records.avro_schema import columns_of_schema
from tubeclient.records.decoder import Decoder
from tubeclient.records.spec import RecordSpec, columns_of, simple_name

NESTED = ["null", "int", {"type": "array", "items": "string"}, record("int", name="Q", namespace="x.y")]
STABLE = {"enableStableIdentifiersForUnionType": "true"}


def column(kind: Any, **options: str) -> str:
    """Spark's name of the column of a type."""
    [one] = columns_of_schema(json.dumps(record(kind)), options)
    assert one.nullable
    return simple_name(one.type)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "string", "avro.java.string": "String"}, "string"),
        (logical("int", "date"), "date"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "bigint"),
        (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("long", "local-timestamp-nanos"), "bigint"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),  # Spark 4.2 has TIME, which no Delta table has
        (logical("string", "uuid"), "string"),
        (fixed(16, logicalType="uuid"), "binary"),
        (fixed(12, logicalType="duration"), "binary"),
        (logical("bytes", "big-decimal"), "binary"),
        (fixed(0), "binary"),
        (logical("bytes", "decimal", precision=5, scale=2), "decimal(5,2)"),
        (logical("bytes", "decimal", precision=38, scale=38), "decimal(38,38)"),
        (logical("bytes", "decimal", precision=5), "decimal(5,0)"),
        (fixed(2, logicalType="decimal", precision=4, scale=1), "decimal(4,1)"),
        (fixed(16, logicalType="decimal", precision=38), "decimal(38,0)"),
        # Logical types that are used wrongly are none.
        (fixed(2, logicalType="decimal", precision=5), "binary"),
        (fixed(0, logicalType="decimal", precision=1), "binary"),
        (fixed(8, logicalType="decimal", precision=10**12), "binary"),
        (logical("bytes", "decimal", precision=2, scale=3), "binary"),
        (logical("bytes", "decimal", precision=2, scale=-1), "binary"),
        (logical("bytes", "decimal", precision=0), "binary"),
        (logical("bytes", "decimal", precision="5"), "binary"),
        (logical("bytes", "decimal", precision=5, scale="1"), "binary"),
        (logical("bytes", "money", precision=5, scale=1), "binary"),
        (logical("bytes", "decimal", precision=True), "binary"),
        (logical("bytes", "decimal"), "binary"),
        (logical("string", "decimal", precision=5), "string"),
        (logical("string", "date"), "string"),
        (logical("int", "timestamp-millis"), "int"),
        (logical("long", "date"), "bigint"),
        (logical("int", ["date"]), "int"),  # type: ignore[arg-type]
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": ["int", "null"]}, "map<string,int>"),
        ({"type": "array", "items": {"type": "map", "values": logical("int", "date")}}, "array<map<string,date>>"),
        (record("int", "string", name="Q"), "struct<a:int,b:string>"),
        ({**record("int", name="Q"), "type": "error"}, "struct<a:int>"),
        (["null", "int"], "int"),
        (["int", "null"], "int"),
        (["int"], "int"),
        (["int", "long"], "bigint"),
        (["long", "null", "int"], "bigint"),
        ([logical("int", "date"), "long"], "bigint"),
        (["float", "double"], "double"),
        (["int", "float"], "struct<member0:int,member1:float>"),
        (["null", record("long", name="Q"), logical("int", "date")], "struct<member0:struct<a:bigint>,member1:date>"),
        (NESTED, "struct<member0:int,member1:array<string>,member2:struct<a:int>>"),
    ],
)
def test_columns(kind: Any, expected: str) -> None:
    assert column(kind) == expected


def test_columns_of_a_union_by_its_types_names() -> None:
    assert column(NESTED, **STABLE) == "struct<member_int:int,member_array:array<string>,member_Q:struct<a:int>>"
    prefix = {"stableIdentifierPrefixForUnionType": "of_"}
    assert column(["int", fixed(1)], **STABLE, **prefix) == "struct<of_int:int,of_F:binary>"
    assert column(["int", fixed(1)], **prefix) == "struct<member0:int,member1:binary>"
    with pytest.raises(ConfigurationError, match="a is a union with two types of the same name; leave enableStable"):
        column([fixed(1, "x.Int"), fixed(1, "y.int")], **STABLE)
    with pytest.raises(ConfigurationError, match="enableStableIdentifiersForUnionType is 'yes'; write true or false"):
        column("int", enableStableIdentifiersForUnionType="yes")


@pytest.mark.parametrize(
    "schema",
    [
        record(fixed(1), "F", "p.F", namespace="p"),
        record(fixed(1, "p.F"), "F", "p.F", name="p.R", namespace="q"),
        record(fixed(1, namespace=""), "F", "F", namespace="p"),  # as Java's reader finds it
        record(fixed(1, namespace=None), "p.F", "F", namespace="p"),
        record(record(fixed(1), name="Q", namespace="q"), "q.F", {"type": "q.F"}, namespace="p"),
        record(fixed(1), fixed(1), "F"),  # twice the same
    ],
)
def test_names_of_types_are_found_in_their_namespace(schema: Any) -> None:
    *_, before, last = columns_of_schema(json.dumps(schema), {})
    assert simple_name(before.type) == simple_name(last.type) == "binary"


DEEP: Any = "int"
for _ in range(60):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("null", "a is only null, a type that no table can store"),
        (["null"], "a is only null"),
        ([], "a is only null"),
        ({"type": "array", "items": "null"}, "a is only null"),
        ({"type": "map", "values": ["null"]}, "a is only null"),
        (record(name="Q"), "a has no fields"),
        ({"type": "record", "name": "Q"}, "a has no list of fields"),
        ({"type": "record", "name": "Q", "fields": ["b"]}, "a has no list of fields"),
        ({"type": "record", "name": "Q", "fields": [{"name": "b"}]}, "a.b has no type"),
        ({"type": "record", "name": "Q", "fields": [{"type": "int"}]}, "a has no name"),
        ({"type": "record", "name": "Q", "fields": [{"name": "b c", "type": "int"}]}, "a has no name, or one with"),
        ({"type": "record", "name": "Q", "fields": [{"name": "b.c", "type": "int"}]}, "a has no name, or one with"),
        (
            {"type": "record", "name": "Q", "fields": 2 * [{"name": "b", "type": "int"}]},
            "a has two fields of the same name",
        ),
        (["null", "R"], "a is R within R, which no table can store"),
        (record({"type": "map", "values": "Q"}, name="Q"), "a.a is Q within Q"),
        (record(fixed(1, "Q"), name="Q"), "a.a defines Q within itself"),
        (record(fixed(1), fixed(2), name="Q"), "a.b defines F again, as another type"),
        ("strin", "a has the type strin, which is not defined before this place"),
        ("record", "a has no name"),
        ("array", "a has no type"),
        ({"type": "strin"}, "a has the type strin, which is not defined"),
        (record(fixed(1, aliases=["G"]), "G", name="Q"), "a.b has the type G, which is"),
        ({"type": {"type": "int"}}, "a has no type"),
        ({"type": ["null", "int"]}, "a has no type"),
        ({}, "a has no type"),
        (None, "a has no type"),
        (5, "a has no type"),
        ({"type": "array"}, "a has no type"),
        ({"type": "map", "items": "int"}, "a has no type"),
        (["int", "int"], "a is a union that has a type twice"),
        ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "a is a union that has a type twice"),
        ([fixed(1), "F"], "a is a union that has a type twice"),
        (["int", ["null", "long"]], "a is a union .* or contains a union"),
        ({"type": "fixed", "size": 1}, "a has no name"),
        (fixed(1, "1x"), "a has no name, or one with characters other than letters, digits and _"),
        (fixed(1, "F", namespace="x y"), "a has no name, or one with"),
        (fixed(-1), "a has no size in bytes"),
        (fixed("3"), "a has no size in bytes"),  # type: ignore[arg-type]
        (fixed(True), "a has no size in bytes"),
        ({"type": "enum", "name": "E"}, "a has no symbols"),
        ({"type": "enum", "name": "E", "symbols": []}, "a has no symbols"),
        ({"type": "enum", "name": "E", "symbols": "AB"}, "a has no symbols"),
        ({"type": "enum", "name": "E", "symbols": ["A", 5]}, "a has no name"),
        (
            {"type": "enum", "name": "E", "symbols": ["\ud800"]},
            "a has no name, or one with characters other than letters",
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "a has two symbols of the same name"),
        (logical("bytes", "decimal", precision=39), "a is a decimal of 39 digits, but a column has at most 38"),
    ],
)
def test_schemas_that_are_refused(kind: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the Avro schema cannot be used: {said}") as caught:
        column(kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("", "; this is not JSON"),
        ("id INT", "; this is not JSON"),
        ("[" * 100_000, "; this is not JSON"),
        ('"string"', "$"),
        ('["null"]', "$"),
        (json.dumps(fixed(1)), "$"),
        ('{"type": ["record"]}', "$"),
    ],
)
def test_what_is_no_schema_of_a_record(schema: str, said: str) -> None:
    words = "format avro needs a schema in an .avsc file: an Avro schema of a record"
    with pytest.raises(ConfigurationError, match=f"^{words}{said}"):
        columns_of_schema(schema, {})


def test_types_deep_within_each_other() -> None:
    with pytest.raises(ConfigurationError, match="column a nests more than 50 types"):
        columns_of(RecordSpec(kind="avro", schema=columns_of_schema(json.dumps(record(DEEP)), {})))
    text = '{"type":"array","items":' * 900 + '"int"' + "}" * 900
    with pytest.raises(ConfigurationError, match="the Avro schema nests too many types"):
        columns_of_schema(json.dumps(record("?")).replace('"?"', text), {})


def test_other_columns_than_the_schemas() -> None:
    schema = json.dumps(record("int"))
    for other in (record("long"), record("int", "int")):
        columns = columns_of_schema(json.dumps(other), {})
        with pytest.raises(ConfigurationError, match="the columns are not those of the Avro schema"):
            Decoder(RecordSpec(kind="avro", schema=columns, descriptor=schema.encode()))
