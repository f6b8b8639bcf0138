"""A job's bad records, as `tubeclient bad-records show` shows them."""

from __future__ import annotations

import base64
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tubeclient.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN_BYTES: Final = 400
_DAY: Final = 86_400


def found_bad_records(
    records: DataFrame,
    reason: str | None,
    since: datetime | None,
    newest: int,
    *,
    days: int | None = None,
    record_id: str | None = None,
) -> dict[str, Any]:
    """Of `Ingest.bad_records()` those that are bad, with `reason` in their reason (None: all) and not older than
    `since` (UTC): how many there are, their reasons, the most frequent first, their days, and the newest records.
    `days` after `since` it ends (None: never); `record_id` chooses one."""
    from pyspark.sql import functions as F

    records = records.where("state = 'bad'")
    if since is not None:
        begin = since.replace(tzinfo=UTC)
        records = records.where(F.unix_seconds("time") >= begin.timestamp())
        if days is not None:
            records = records.where(F.unix_seconds("time") < (begin + timedelta(days)).timestamp())
    if reason is not None:
        records = records.where(F.contains(F.lower("reason"), F.lower(F.lit(reason))))
    if record_id is not None:
        records = records.where(F.col("id") == record_id)
    # Seconds and not timestamps, which Python would get in the session's time zone.
    records = records.withColumn("time", F.unix_micros("time") / 1e6)
    reason_alone = F.regexp_replace("reason", ", at byte [0-9]+$", "").alias("reason")
    day = F.floor(F.col("time") / _DAY).alias("day")
    counts = records.groupBy(reason_alone, day).agg(F.count("*").alias("records"), F.max("time").alias("newest"))
    by_reason, by_day, last = Counter[str](), Counter[int](), dict[str, float]()
    for row in counts.collect():
        by_reason[row.reason] += row.records
        by_day[row.day] += row.records
        last[row.reason] = max(row.newest, last.get(row.reason, row.newest))
    order = (F.desc("time"), F.desc("sequence"), "partitionKey", "messageId", "recordIndex")
    own = [name for name in ("id",) if name in records.columns]
    wanted = records.orderBy(*order).select(*own, "time", "reason", *place_columns(), "value").limit(newest)
    shown = []
    for row in wanted.collect() if by_reason else []:
        value = row.value
        text = None if value is None else base64.b64encode(value).decode()
        shown.append({**row.asDict(), "time": _iso(row.time), "value": _shown(value), "valueBase64": text})
    return {
        "records": by_reason.total(),
        "reasons": [
            {"reason": text, "records": count, "newest": _iso(last[text])}
            for text, count in sorted(by_reason.items(), key=lambda item: (-item[1], item[0]))
        ],
        "days": [
            {"day": _iso(day * _DAY)[:10], "records": count} for day, count in sorted(by_day.items(), reverse=True)
        ],
        "newest": shown,
    }


def place_columns() -> dict[str, str]:
    """The columns that name a record, and what people call them."""
    from spark_source.typed.columns import PLACE_WORDS

    return {"inlongStreamId": "stream", **PLACE_WORDS}


def _shown(value: bytes | None) -> str | None:
    """The first bytes as text; what is not printable UTF-8 as \\x.."""
    if value is None:
        return None
    text = printable(value[:_SHOWN_BYTES].decode(errors="backslashreplace"))
    return text if len(value) <= _SHOWN_BYTES else f"{text}... ({len(value):,} bytes)"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
