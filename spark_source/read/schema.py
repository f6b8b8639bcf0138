"""The rows' columns, for Spark and Arrow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_source.options.row_options import RowOptions
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["COLUMNS", "Column", "arrow_schema", "check_schema", "spark_schema"]


class Column(NamedTuple):
    """One column of the rows; nullable for Spark."""

    name: str
    kind: DataType
    doc: str
    wanted: Callable[[RowOptions], bool] = lambda _: True
    """Whether rows have it."""


def _of_records(rows: RowOptions) -> bool:
    return rows.payload != "raw"


_TEXTS: Final = MapType(StringType(), StringType())

COLUMNS: Final = (
    Column("topic", StringType(), "The topic."),
    Column("partitionKey", StringType(), "The partition as TubeMQ names it: brokerId:topic:partitionId."),
    Column("brokerId", IntegerType(), "The broker that holds the partition."),
    Column("partition", IntegerType(), "The partition's id on that broker: storeId * 10 000 + number."),
    Column(
        "offset",
        LongType(),
        "The message's offset in its store's index, a multiple of 28. Known only where a store has a single "
        "partition, all of the topic is read and nothing is filtered; null else, as messages carry no offset.",
    ),
    Column("messageId", LongType(), "The id that the broker gave. Unique within a store only, and not ordered."),
    Column("messageType", StringType(), "The tag that filters look at; null without one."),
    Column(
        "messageTime",
        TimestampType(),
        "The time that the producer attached, to the minute; null without one. Read in the zone `messageTimeZone`.",
    ),
    Column("value", BinaryType(), "The message's body, or the record's."),
    Column("inlongGroupId", StringType(), "The record's InLong group; null if not from InLong.", _of_records),
    Column("inlongStreamId", StringType(), "The record's InLong stream; null if not from InLong.", _of_records),
    Column(
        "dataTime",
        TimestampType(),
        "The record's own time, to the millisecond; null without one. Text is read in the zone `messageTimeZone`.",
        _of_records,
    ),
    Column(
        "recordIndex",
        IntegerType(),
        "The record's place in its message, from 0. With partitionKey and messageId it identifies the record.",
        _of_records,
    ),
    Column(
        "badReason",
        StringType(),
        "Only with `badMessages=keep`: why the message is bad; null for all others.",
        lambda rows: rows.bad_messages == "keep",
    ),
    Column(
        "attributes",
        _TEXTS,
        "Only with `includeAttributes`: what the producer attached besides tag and time.",
        lambda rows: rows.include_attributes,
    ),
    Column(
        "recordAttributes",
        _TEXTS,
        "Only with `includeAttributes`: the attributes of the record.",
        lambda rows: rows.include_attributes and _of_records(rows),
    ),
)


def spark_schema(rows: RowOptions) -> StructType:
    """Return the schema of the rows."""
    return StructType([StructField(column.name, column.kind) for column in COLUMNS if column.wanted(rows)])


def arrow_schema(rows: RowOptions) -> pyarrow.Schema:
    """Return the schema for Arrow, made by Spark's own converter: Spark compares each result with it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.2 it has no time zone parameter, and timestamps are in UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(spark_schema(rows), **zone)


def check_schema(given: StructType, rows: RowOptions) -> None:
    """Raise ConfigurationError unless `given` is the source's schema; users may set a schema."""
    own = spark_schema(rows)
    if given != own:
        raise ConfigurationError(
            "the source tubeclient has a fixed schema; leave .schema(...) out and select from its columns. It has "
            f"{own.simpleString()}; given was {given.simpleString()}",
            condition="FIXED_SCHEMA",
        )
