"""How many records of a round are good and how many bad, by the minute of their data time."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_source.offsets.offset_spec import LAST_MS
from spark_source.typed.columns import BAD_REASON
from spark_source.typed.record_format import place_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TIMES: Final = ("dataTime", "messageTime")


class Counted(NamedTuple):
    """The records of a round."""

    total: int = 0
    bad: int = 0
    example: str = ""
    """A bad record's place and reason; empty if there is none."""
    bad_by_minute: Mapping[int | None, int] = MappingProxyType({})
    """Bad records by their data time's minute, in ms since 1970, if that was asked for."""
    others: int = 0
    """Good ones that change no row."""
    rows: int | None = None
    """Rows that were written, if that is known."""


@contextlib.contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is computed once, where the session lets it be kept; elsewhere, as in serverless ones, each use
    reads the same ranges again."""
    from pyspark.errors import PySparkException

    try:
        cached = frame.persist()
    except PySparkException:
        yield frame
        return
    try:
        yield cached
    finally:
        cached.unpersist()


def count(parsed: DataFrame, *, by_minute: bool = False) -> Counted:
    """Count parsed records in one pass, which also computes what is kept."""
    from pyspark.sql import functions as F

    reason = F.col(BAD_REASON)
    example = F.when(reason.isNotNull(), F.concat(place_of(parsed), F.lit(": "), reason))
    grouped = parsed.groupBy(*[minute_of(parsed)] * by_minute)
    rows = grouped.agg(
        F.count("*").alias("total"), F.count(reason).alias("bad"), F.min(example).alias("example")
    ).collect()
    return Counted(
        sum(row.total for row in rows),
        sum(row.bad for row in rows),
        min((row.example for row in rows if row.example), default=""),
        {row[0]: row.bad for row in rows if row.bad} if by_minute else {},
    )


def time_column(columns: Collection[str]) -> str:
    """The column of the records' time: their data time, or without InLong's packs that of their message."""
    return next(column for column in _TIMES if column in columns)


def minute_of(rows: DataFrame) -> Column:
    """The beginning of the minute of the records' time, in ms since 1970; null without one, or if no clock of Python's
    shows it: the sender chooses it."""
    from pyspark.sql import functions as F

    ms = F.unix_millis(F.col(time_column(rows.columns)))
    return F.when(ms.between(0, LAST_MS), ms - F.pmod(ms, F.lit(60_000))).alias("minute")
