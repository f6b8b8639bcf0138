"""Rows as the source gives them, without a source; and what records are read as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_source.typed.record_format import RecordFormat

GOOD: dict[bytes, Any] = {}
"""Nothing is other than expected."""

_SOURCE = "topic STRING, partitionKey STRING, messageId BIGINT, recordIndex INT, value BINARY, badReason STRING"


def source_rows(spark: SparkSession, values: Sequence[bytes | None], bad: Mapping[int, str] | None = None) -> DataFrame:
    """A row for each value; `bad` are the reasons of those that the source could not parse."""
    rows = [("t", "1:t:0", 100 + n, n, value, (bad or {}).get(n)) for n, value in enumerate(values)]
    return spark.createDataFrame(rows, _SOURCE)


def parsed(spark: SparkSession, form: RecordFormat, expected: Mapping[bytes, Any]) -> dict[bytes, Any]:
    """What `form` makes of the keys of `expected` where it differs from the value: a tuple of the schema's columns, or
    the reason of a bad record."""
    rows = form.parse(source_rows(spark, list(expected))).select("messageId", "record", "badReason")
    records = [row.asDict(recursive=True) for row in sorted(rows.collect(), key=lambda row: row.messageId)]
    for one in records:
        if one["record"] is not None:
            del one["record"]["tubemq"]
    found = dict(zip(expected, (_said(one["record"], one["badReason"]) for one in records), strict=True))
    return {value: found[value] for value, wanted in expected.items() if found[value] != wanted}


def _said(record: Mapping[str, Any] | None, reason: str | None) -> Any:
    assert (record is None) == (reason is not None)
    if record is None:
        return reason
    return tuple(map(_plain, record.values()))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    return str(value) if isinstance(value, date | Decimal) else value
