"""`typed`: a frame's records as columns, for users' own queries. The ingest job makes its target's rows of the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_source.session_confs import SESSION_ZONE
from spark_source.typed.columns import BAD_REASON, CHANGE, LINEAGE, RECORD, VALUE
from spark_source.typed.format_settings import FormatSettings
from tubeclient.errors import ConfigurationError
from tubeclient.records.spec import CHANGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def typed(
    frame: DataFrame,
    format: str,
    schema: str | StructType | None = None,
    *,
    separator: str | None = None,
    escape: str | None = None,
    encoding: str = "UTF-8",
    options: Mapping[str, str] | None = None,
    rescue: str = "none",
) -> DataFrame:
    """Read the column `value` as records of `format` with the columns of `schema`, as `tubeclient ingest` does.

    Each row of `frame` becomes a row of the result. With canal-json or debezium-json, each change becomes a row. This
    call starts no Spark job.

    Args:
        frame: What `format("tubeclient")` reads, batch or stream, or any frame with a binary column `value`.
        format: One of json, csv, kv, avro, protobuf, canal-json or debezium-json.
        schema: Columns as in CREATE TABLE, or the path of a file with them that ends in .ddl. NOT NULL makes records
            without a value bad. For avro, an Avro schema in JSON or the path of an .avsc file. protobuf needs none;
            then each field of the message is a column.
        separator: The separator of csv or kv.
        escape: The escape character of csv or kv.
        encoding: How text is encoded in `value`.
        options: Named like those of from_json, from_csv, from_avro and from_protobuf, as far as ingest takes them.
        rescue: With fields, a column `_rescued` has the fields of json and kv that the schema lacks, as JSON. With
            values, it also has those whose values are not of their column's type.

    Returns:
        The columns of `schema` (and `_rescued`), all null in a bad record. With canal-json and debezium-json a struct
        `change` follows. Then comes `tubemq`, a struct of all columns of `frame`, and `badReason`, null in a good
        record. Times without a zone are in the session's time zone; the session's other settings change nothing.

    Raises:
        ConfigurationError: The arguments do not fit.
    """
    from pyspark.sql import functions as F

    if VALUE not in frame.columns:
        raise ConfigurationError(f"the frame has no column {VALUE}, which holds the records' bytes; add it")
    settings = FormatSettings(
        format=format,
        schema=schema if schema is None or isinstance(schema, str) else schema.toDDL(),
        separator=separator,
        escape=escape,
        encoding=encoding,
        format_options=options or {},
        rescue=rescue,
        time_zone=_zone(str(frame.sparkSession.conf.get(SESSION_ZONE))),
    )
    form = settings.record_format()
    names = form.columns.names
    if BAD_REASON.lower() in map(str.lower, names):
        raise ConfigurationError(f"the schema has a column {BAD_REASON}, which says why a record is bad; rename it")
    # As one column, so that no name in the frame clashes with the parser's.
    own = [name for name in (VALUE, BAD_REASON) if name in frame.columns]
    packed = frame.select(F.struct("*").alias(LINEAGE), *own)
    parsed = form.parse(packed)
    if form.kind in CHANGES:
        parsed = parsed.select(F.explode_outer(RECORD).alias(RECORD), LINEAGE, BAD_REASON)
        names = [*names, CHANGE]
    columns = [F.col(RECORD)[name].alias(name) for name in names]
    return parsed.select(*columns, LINEAGE, BAD_REASON)


def _zone(name: str) -> str:
    """Python's name of a session's zone: Spark also takes offsets, as +09:00 and GMT+9."""
    found = re.fullmatch(r"(?:UTC|GMT)?([+-])0?(\d{1,2})(?::?00)?", name)
    # In this area of the database east has a minus, as in POSIX.
    return name if found is None else f"Etc/GMT{'-' if found[1] == '+' else '+'}{found[2]}"
