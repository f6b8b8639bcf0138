"""The rows' columns, for Spark and Arrow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
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

from spark_source.options.source_options import RowOptions
from tubeclient.arguments import nearest
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

if TYPE_CHECKING:
    import pyarrow

OF_PARTITIONS: Final[Mapping[str, Callable[[PartitionKey], str | int]]] = {
    "topic": lambda key: key.topic,
    "partitionKey": str,
    "brokerId": lambda key: key.broker_id,
    "partition": lambda key: key.partition_id,
}
"""Columns that are the same for a whole partition, and their values, which are never null; the rows begin with them."""


_RECORDS: Final = "payload=inlong or payload=auto"
_BAD_AS_ROWS: Final = "badMessages=keep"


class SourceColumn(NamedTuple):
    """One column of the rows; nullable for Spark."""

    name: str
    kind: DataType
    doc: str
    of: str = ""
    """The options with which rows can have it; "" for any."""
    only_named: bool = False
    """Whether rows have it only if the option `columns` names it."""


_TEXTS: Final = MapType(StringType(), StringType())

COLUMNS: Final = (
    SourceColumn("topic", StringType(), "The topic."),
    SourceColumn("partitionKey", StringType(), "The partition as TubeMQ names it: brokerId:topic:partitionId."),
    SourceColumn("brokerId", IntegerType(), "The broker that holds the partition."),
    SourceColumn("partition", IntegerType(), "The partition's id on that broker: storeId * 10 000 + number."),
    SourceColumn(
        "offset",
        LongType(),
        "The message's offset in its store's index, a multiple of 28. Known only where a store has a single "
        "partition, all of the topic is read and nothing is filtered; otherwise null, because messages carry no "
        "offset.",
    ),
    SourceColumn("messageId", LongType(), "The id that the broker gave. Unique within a store only, and not ordered."),
    SourceColumn("messageType", StringType(), "The tag that filters use; null without one."),
    SourceColumn(
        "messageTime",
        TimestampType(),
        "The time that the producer attached, to the minute; null without one. Read in the zone `messageTimeZone`.",
    ),
    SourceColumn("value", BinaryType(), "The message's body, or the record's."),
    SourceColumn("inlongGroupId", StringType(), "The record's InLong group; null if not from InLong.", _RECORDS),
    SourceColumn("inlongStreamId", StringType(), "The record's InLong stream; null if not from InLong.", _RECORDS),
    SourceColumn(
        "dataTime",
        TimestampType(),
        "The record's own time, to the millisecond; null without one. Text is read in the zone `messageTimeZone`.",
        _RECORDS,
    ),
    SourceColumn(
        "recordIndex",
        IntegerType(),
        "The record's place in its message, from 0. With partitionKey and messageId it identifies the record.",
        _RECORDS,
    ),
    SourceColumn(
        "badReason",
        StringType(),
        "Only with `badMessages=keep`: why the message is bad; null for all others.",
        _BAD_AS_ROWS,
    ),
    SourceColumn(
        "attributes",
        _TEXTS,
        "Only if `columns` names it: what the producer attached in addition to tag and time.",
        only_named=True,
    ),
    SourceColumn(
        "recordAttributes",
        _TEXTS,
        "Only if `columns` names it: the attributes of the record.",
        _RECORDS,
        only_named=True,
    ),
)


def spark_schema(rows: RowOptions) -> StructType:
    """Return the schema of the rows. Raises ConfigurationError if `rows.columns` names others."""
    fit = {"": True, _RECORDS: rows.payload != "raw", _BAD_AS_ROWS: rows.bad_messages == "keep"}
    there = [column for column in COLUMNS if fit[column.of]]
    names = _names_of(rows.columns or ("*",), there)
    if rows.bad_messages == "keep" and "badReason" not in names:
        raise ConfigurationError(
            "with badMessages=keep, bad messages are rows too, but option columns lacks badReason, which marks them; "
            "add badReason",
        )
    return StructType([StructField(column.name, column.kind) for column in there if column.name in names])


def _names_of(given: Sequence[str], there: Sequence[SourceColumn]) -> set[str]:
    """The names of given columns, which may have any case, as in Spark; `*` are those that rows have by default."""
    names = {column.name.lower(): column.name for column in there}
    named = [name for name in given if name != "*"]
    for name in named:
        if name.lower() in names:
            continue
        known = next((column for column in COLUMNS if column.name.lower() == name.lower()), None)
        if known is not None:
            raise ConfigurationError(
                f"option columns names {known.name}, which rows have only with {known.of}",
                condition="INVALID_OPTION_VALUE",
            )
        raise ConfigurationError(
            f"option columns names {name!r}, which is not a column; {nearest(name, names.values())}",
            condition="INVALID_OPTION_VALUE",
        )
    default = {column.name for column in there if not column.only_named} if len(named) < len(given) else set()
    return default | {names[name.lower()] for name in named}


def arrow_schema(rows: RowOptions) -> pyarrow.Schema:
    """Return the schema for Arrow, made by Spark's own converter: Spark compares each result with it."""
    return arrow_types(spark_schema(rows))


def arrow_type(kind: DataType) -> pyarrow.DataType:
    """Arrow's type of one of Spark's, as Spark takes it from tasks."""
    return arrow_types(StructType([StructField("one", kind)])).field(0).type


def spark_type(kind: pyarrow.DataType) -> DataType:
    """Spark's type of one of Arrow's."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind)


def arrow_types(schema: StructType) -> pyarrow.Schema:
    """Arrow's types of columns, as Spark takes them from tasks."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.2 it has no time zone parameter, and timestamps are in UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def check_schema(given: StructType, own: StructType) -> None:
    """Raise ConfigurationError unless `given` is the source's `own` schema; users may set a schema."""
    if given != own:
        raise ConfigurationError(
            "the source tubeclient has a fixed schema; remove .schema(...) and select from its columns. It has "
            f"{own.simpleString()}; you gave {given.simpleString()}",
            condition="FIXED_SCHEMA",
        )
