"""Avro records: the expressions of Spark that read them by their schema.

Spark has nulls for bytes that it cannot read, and takes no notice of what follows a record. So the schema gets one
field more, behind the record: the checksum of its bytes. Nobody can write a record that has its own checksum in it, and
more behind that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_source.typed.columns import BAD_REASON, RECORD, UNREAD, VALUE
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

AVRO_PACKAGE: Final = "org.apache.spark:spark-avro_2.13"
OPTIONS: Final = ("enableStableIdentifiersForUnionType", "stableIdentifierPrefixForUnionType", "recursiveFieldMaxDepth")
_READ: Final = "__read"
AVRO_LIMITS: Final = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength=20971520" for what in ("bytes", "string", "collectionItems")
)
"""Java's options. Avro reserves memory for the lengths that a record names, before it looks whether they are there: by
default gigabytes, for which Spark ends the executor. A message of TubeMQ has 20 MB at most (apache/inlong a6c7a6a670,
TBaseConstants.META_MAX_ALLOWED_MESSAGE_SIZE_MB)."""


class Avro(NamedTuple):
    """What Spark is told of Avro's records."""

    schema: str
    """As `with_sum` makes it."""
    options: Mapping[str, str]
    """Of from_avro."""


def once() -> Column:
    """True. In a column it makes Spark compute that once for each row: it writes a deterministic one out in each place
    that uses it, which with a hundred columns takes minutes. The partition's number is always there, and counts as not
    deterministic."""
    from pyspark.sql import functions as F

    return F.spark_partition_id() >= 0


def with_sum(schema: str) -> str:
    """The Avro schema of a record and its checksum. ConfigurationError if `schema` is not one of a record; what only
    Avro's own parser finds, `avro_columns` says."""
    record: Any = None
    reason = ""
    try:
        record = json.loads(schema)
    except (ValueError, RecursionError) as error:
        reason = f"; this is not JSON: {error}"
    if not isinstance(record, dict) or record.get("type") != "record":
        raise ConfigurationError(f"format avro needs as schema an .avsc file, with an Avro schema of a record{reason}")
    sums = {"type": "fixed", "name": "TubeclientSum", "size": 16}
    fields = [{"name": "record", "type": record}, {"name": "sum", "type": sums}]
    return json.dumps({"type": "record", "name": "TubeclientRecord", "fields": fields})


def avro_read(rows: DataFrame, own: list[Column], columns: StructType, avro: Avro) -> DataFrame:
    """The columns `own` of rows of bytes, with their `RECORD`, `BAD_REASON` and `UNREAD`."""
    from pyspark.sql import functions as F

    value, read = F.col(VALUE), F.col(_READ)
    source = F.col(BAD_REASON) if BAD_REASON in rows.columns else F.lit(None).cast("string")
    reason = F.coalesce(
        source,
        F.when(value.isNull(), "the record is null"),
        F.when(F.length(value) == 0, "the record is empty"),
        F.when(~read["sum"].eqNullSafe(F.unhex(F.md5(value))), "the bytes are not one Avro record of the schema"),
        *(fault for one in columns for fault in _years(one.name, one.dataType, read["record"][one.name])),
    )
    found = rows.select("*", F.when(once(), _from_avro(value, avro)).alias(_READ))
    parsed = found.select(*own, _READ, reason.alias(BAD_REASON), source.alias(UNREAD))
    record = F.when(F.col(BAD_REASON).isNull(), read["record"]).alias(RECORD)
    return parsed.select(*own, record, BAD_REASON, F.col(UNREAD).isNotNull().alias(UNREAD))


def _from_avro(value: Column, avro: Avro) -> Column:
    """A struct of `record` and `sum`."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    fixed = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
    return from_avro(F.concat(value, F.unhex(F.md5(value))), avro.schema, {**avro.options, **fixed})


def _years(name: str, kind: DataType, column: Column) -> Iterator[Column]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if kind.typeName() in ("date", "timestamp", "timestamp_ntz"):
        # Others than Spark cannot read a Delta table that has one such value: its log says them as text.
        yield F.when(~F.year(column).between(1, 9999), f"{name} is not of the years 1 to 9999")
    elif isinstance(kind, StructType):  # lists and maps are not in Delta's log
        for one in kind.fields:
            yield from _years(f"{name}.{one.name}", one.dataType, column[one.name])


def avro_columns(avro: Avro) -> StructType:
    """The columns that Spark makes of it, all nullable. ConfigurationError if Spark cannot use it, or lacks its package
    for Avro (JARS_NOT_FOUND)."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.active()
    try:
        read = _from_avro(F.lit(b""), avro)
        columns = spark.range(1).select(read["record"].alias("record")).select("record.*").schema
    except Exception as error:  # Avro's come as Py4J's, which a client of Connect lacks
        if "_NOT_LOADED_" in str(error):
            raise ConfigurationError(
                f"Spark lacks the package {AVRO_PACKAGE}:{spark.version}, which reads Avro. Start it with that in"
                " spark.jars.packages, beside the others (Spark Connect: the server)",
                condition="JARS_NOT_FOUND",
            ) from None
        lines = [line.strip() for line in str(error).strip().split("\n")]
        reason = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
        raise ConfigurationError(f"Spark cannot use the Avro schema: {reason}") from None
    if not columns:
        raise ConfigurationError("the Avro schema has no fields, which would be the columns")
    for one in columns:
        if one.dataType.typeName() == "void":
            raise ConfigurationError(f"column {one.name} is void, a type that avro does not have")
    return columns
