"""Rows to messages: what is written is what a read of it gives, and a row that cannot be sent is named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
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
from spark_source.plan.read_task import OffsetRule
from spark_source.read.arrow import PackDecoder
from spark_source.read.schema import spark_schema
from spark_source.write.sink_rows import MessageMaker, SinkColumns, find_columns
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.range_reader import Pack
from tubeclient.wire.messages import Columns
from tubeclient.wire.payload import decode_payload

KEY = PartitionKey(1, "clicks", 0)
COLUMNS = SinkColumns(value=4, topic=0, tag=2, attributes=1, message_time=3)

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=",="), max_size=8)
tags = st.none() | words.map(lambda word: word.replace("#", "").strip())
attributes = st.none() | st.dictionaries(words.filter(lambda key: key and not key.startswith("$")), words, max_size=3)
minutes = st.none() | st.datetimes(datetime(1973, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(second=0, microsecond=0, tzinfo=UTC)
)


def batch(rows: list[dict[str, Any]], value_type: pa.DataType | None = None) -> pa.RecordBatch:
    """With the columns in the order that Spark gave them, which is that of COLUMNS."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row.get("topic", "clicks") for row in rows], pa.string()),
            pa.array([row.get("attributes") for row in rows], pa.map_(pa.string(), pa.string())),
            pa.array([row.get("tag") for row in rows], pa.string()),
            pa.array([row.get("time") for row in rows], pa.timestamp("us", "America/New_York")),
            pa.array([row.get("value", b"x") for row in rows], value_type or pa.binary()),
        ],
        names=["topic", "attributes", "tag", "messageTime", "value"],
    )


def make(
    rows: list[dict[str, Any]], topic: str | None = None, zone: str = "UTC", kind: pa.DataType | None = None
) -> list[OutgoingMessage]:
    return MessageMaker(COLUMNS, topic, zone).make(batch(rows, kind))


def read_back(messages: list[OutgoingMessage], zone: str) -> list[dict[str, Any]]:
    """As the source reads them."""
    stored = Columns([1] * len(messages), [one.payload for one in messages], [one.flag for one in messages])
    decoder = PackDecoder(rows=RowOptions(columns=ATTRIBUTES), time_zone=zone)
    pack = Pack(KEY, 0, 28 * len(messages), stored)
    found: list[dict[str, Any]] = decoder.decode([pack], OffsetRule.ALWAYS).to_pylist()
    return found


@given(
    st.lists(
        st.fixed_dictionaries(
            {"value": st.binary(min_size=1), "tag": tags, "attributes": attributes, "time": minutes},
        ),
        min_size=1,
    ),
    st.sampled_from(["UTC", "Asia/Kolkata", "Africa/Monrovia"]),
)
def test_what_is_written_is_what_is_read(rows: list[dict[str, Any]], zone: str) -> None:
    found = read_back(make(rows, zone=zone), zone)
    assert [row["value"] for row in found] == [row["value"] for row in rows]
    assert [row["messageType"] for row in found] == [row["tag"] or None for row in rows]
    assert [dict(row["attributes"]) for row in found] == [row["attributes"] or {} for row in rows]
    assert [row["messageTime"] for row in found] == [row["time"] for row in rows]


def test_what_goes_over_the_wire() -> None:
    moment = datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC)
    [one] = make([{"tag": " web ", "attributes": {"user": "7"}, "time": moment}], zone="Asia/Shanghai")
    assert (one.topic, one.tag, one.time) == ("clicks", "web", "202611220759")
    assert decode_payload(one.payload, one.flag) == (b"x", "$msgType$=web,$msgTime$=202611220759,user=7")
    [bare] = make([{}])
    assert (bare.payload, bare.flag, bare.tag, bare.time) == (b"x", 0, "", "")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_values_of_other_types(kind: pa.DataType) -> None:
    values: list[Any] = ["a", "ü€"] if "string" in str(kind) else [b"a", "ü€".encode()]
    made = make([{"value": value} for value in values], kind=kind)
    assert [one.payload for one in made] == [b"a", "ü€".encode()]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"value": None}, "column value is null"),
        ({"value": b""}, "an empty message cannot be sent to topic clicks"),
        ({"topic": None}, "column topic is null, and the option topic is not set"),
        ({"topic": " "}, "column topic is blank"),
        ({"tag": "a,b"}, "'a,b' is not a tag name: .* none of # , ="),
        ({"attributes": {"k": "a=b"}}, "attribute 'k'='a=b' cannot be sent"),
        ({"attributes": {"": "v"}}, "attribute '' cannot be sent"),
        ({"attributes": {"$msgType$": "v"}}, r"attribute '\$msgType\$' cannot be sent"),
        ({"attributes": {"k": "v", "n": None}}, "column attributes has no value for the key 'n'"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(row: dict[str, Any], message: str) -> None:
    maker = MessageMaker(COLUMNS, None, "UTC")
    maker.make(batch([{}, {}]))
    with pytest.raises(ConfigurationError, match=f"row 3 of this task cannot be sent: .*{message}"):
        maker.make(batch([{}, row]))


# Columns, by the schema alone

TYPES: dict[str, DataType] = {
    "value": BinaryType(),
    "topic": StringType(),
    "tag": StringType(),
    "attributes": MapType(StringType(), StringType()),
    "messageTime": TimestampType(),
}


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_columns_are_found_in_any_order_and_case() -> None:
    columns = schema(TAG=StringType(), messagetime=TimestampType(), Value=BinaryType(), topic=StringType())
    assert find_columns(columns, None) == SinkColumns(value=2, topic=3, tag=0, message_time=1)
    assert find_columns(schema(**TYPES), "t") == SinkColumns(0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (schema(tag=StringType()), "needs a column value, of type binary or string; the columns are tag"),
        (schema(value=LongType()), "column value has the type bigint; a write needs binary or string there, so cast"),
        (
            schema(Value=BinaryType(), TOPIC=BinaryType()),
            "column TOPIC has the type binary; a write needs string there",
        ),
        (schema(value=BinaryType(), tag=IntegerType()), "column tag has the type int; a write needs string there"),
        (
            schema(value=BinaryType(), attributes=MapType(StringType(), LongType())),
            "column attributes has the type map<string,bigint>; a write needs map<string,string> there",
        ),
        (
            schema(value=BinaryType(), messageTime=TimestampNTZType()),
            "column messageTime has the type timestamp_ntz; a write needs timestamp there",
        ),
        (schema(value=BinaryType(), VALUE=BinaryType()), "columns value and VALUE are the same, because a write"),
        (
            schema(value=BinaryType(), size=LongType()),
            "column size cannot be written; select among value, topic, tag, attributes, messageTime",
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
