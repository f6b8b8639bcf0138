"""The rows' columns, for Spark and Arrow."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

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

from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["COLUMNS", "arrow_schema", "check_schema", "spark_schema"]

COLUMNS: tuple[tuple[str, DataType, str], ...] = (
    ("topic", StringType(), "The topic."),
    ("partitionKey", StringType(), "The partition as TubeMQ names it: brokerId:topic:partitionId."),
    ("brokerId", IntegerType(), "The broker that holds the partition."),
    ("partition", IntegerType(), "The partition's id on that broker: storeId * 10 000 + number."),
    (
        "offset",
        LongType(),
        "The message's offset in its store's index, a multiple of 28. Known only where a store has a single "
        "partition, all of the topic is read and nothing is filtered; null else, as messages carry no offset.",
    ),
    ("messageId", LongType(), "The id that the broker gave. Unique within a store only, and not ordered."),
    ("messageType", StringType(), "The tag that filters look at; null without one."),
    (
        "messageTime",
        TimestampType(),
        "The time that the producer attached, to the minute; null without one. Read in the zone `messageTimeZone`.",
    ),
    ("value", BinaryType(), "The message's body."),
    (
        "attributes",
        MapType(StringType(), StringType()),
        "Only with `includeAttributes`: what the producer attached besides tag and time.",
    ),
)
"""Name, type and meaning; all columns are nullable for Spark."""


def spark_schema(include_attributes: bool) -> StructType:
    """Return the schema of the rows; the column `attributes` is optional."""
    return StructType(
        [StructField(name, kind) for name, kind, _ in COLUMNS if include_attributes or name != "attributes"]
    )


def arrow_schema(include_attributes: bool) -> pyarrow.Schema:
    """Return the schema for Arrow, made by Spark's own converter: Spark compares each result with it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.2 it has no time zone parameter, and timestamps are in UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(spark_schema(include_attributes), **zone)


def check_schema(given: StructType, include_attributes: bool) -> None:
    """Raise ConfigurationError unless `given` is the source's schema; users may set a schema."""
    own = spark_schema(include_attributes)
    if given != own:
        raise ConfigurationError(
            "the source tubeclient has a fixed schema; leave .schema(...) out and select from its columns. It has "
            f"{own.simpleString()}; given was {given.simpleString()}"
        )
