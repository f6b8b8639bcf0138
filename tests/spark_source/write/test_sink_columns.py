"""Columns of a write: found in any order and case, and everything else refused by name and type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_source.options.source_options import ATTRIBUTES, RowOptions
from spark_source.read.schema import spark_schema
from spark_source.write.sink_columns import SinkColumns, find_columns
from tubeclient.errors import ConfigurationError

TYPES: dict[str, DataType] = {
    "value": BinaryType(),
    "topic": StringType(),
    "tag": StringType(),
    "attributes": MapType(StringType(), StringType()),
    "messageTime": TimestampType(),
}
PARTS = {"value": "value", "topic": "topic", "tag": "tag", "attributes": "attributes", "messageTime": "message_time"}


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@given(
    st.permutations(list(TYPES)),
    st.lists(st.sampled_from(["lower", "upper", "as is"]), min_size=5, max_size=5),
    st.integers(0, 5),
)
def test_columns_are_found_in_any_order_and_case(names: list[str], cases: list[str], left_out: int) -> None:
    names = [name for number, name in enumerate(names) if number != left_out or name == "value"]
    written = [
        {"lower": n.lower(), "upper": n.upper(), "as is": n}[case] for n, case in zip(names, cases, strict=False)
    ]
    columns = schema(**{name: TYPES[known] for name, known in zip(written, names, strict=True)})
    wanted = SinkColumns(**{PARTS[name]: number for number, name in enumerate(names)})
    assert find_columns(columns, "t") == wanted
    if "topic" in names:
        assert find_columns(columns, None) == wanted


def test_a_value_may_be_text() -> None:
    assert find_columns(schema(value=StringType()), "t") == SinkColumns(0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (schema(tag=StringType()), "needs a column value, of type binary or string; the columns are tag"),
        (schema(value=LongType()), "column value has the type bigint; a write takes binary or string there, so cast"),
        (
            schema(Value=BinaryType(), TOPIC=BinaryType()),
            "column TOPIC has the type binary; a write takes string there",
        ),
        (schema(value=BinaryType(), tag=IntegerType()), "column tag has the type int; a write takes string there"),
        (
            schema(value=BinaryType(), attributes=MapType(StringType(), LongType())),
            "column attributes has the type map<string,bigint>; a write takes map<string,string> there",
        ),
        (
            schema(value=BinaryType(), messageTime=TimestampNTZType()),
            "column messageTime has the type timestamp_ntz; a write takes timestamp there",
        ),
        (schema(value=BinaryType(), VALUE=BinaryType()), "columns value and VALUE are the same, because a write"),
        (
            schema(value=BinaryType(), size=LongType()),
            "column size cannot be written; select among value, topic, tag, attributes and messageTime",
        ),
        (schema(value=BinaryType(), messageType=StringType()), "column messageType .*; rename messageType to tag"),
        (schema(key=BinaryType(), value=BinaryType()), "column key .*; TubeMQ has no keys"),
        (schema(value=BinaryType(), headers=BinaryType()), "column headers .*; give them as attributes, a map"),
        (schema(value=BinaryType(), partition=LongType()), "column partition .*; rows go to all partitions in turn"),
        (schema(value=BinaryType(), timestamp=LongType()), "column timestamp .*; rename timestamp to messageTime"),
        (spark_schema(RowOptions(columns=ATTRIBUTES)), "column partitionKey cannot be written"),
    ],
)
def test_other_columns_are_refused(columns: StructType, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        find_columns(columns, "t")


def test_the_topic_has_to_come_from_somewhere() -> None:
    with pytest.raises(ConfigurationError, match="neither an option topic nor a column topic"):
        find_columns(schema(value=BinaryType()), None)
