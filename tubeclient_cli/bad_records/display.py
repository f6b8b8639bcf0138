"""Output of `tubeclient bad-records show`: tables for people, JSON for scripts."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Found", "bad_records_json", "find", "print_bad_records"]

_MOST_REASONS: Final = 100
_SHOWN_BYTES: Final = 60
_NEWEST: Final = ("time", "state", "reason", "topic", "partitionKey", "offset", "messageId", "recordIndex", "value")


@dataclass(frozen=True, slots=True)
class Found:
    """The chosen records: how many there are, the most frequent reasons, and the newest records."""

    records: int
    reasons: list[dict[str, Any]]
    newest: list[dict[str, Any]]


def find(records: DataFrame, state: str | None, reason: str | None, newest: int) -> Found:
    """Of `Ingest.bad_records()` those in `state` and with `reason` in their reason; None chooses all."""
    from pyspark.sql import functions as F

    if state is not None:
        records = records.where(F.col("state") == state)
    if reason is not None:
        records = records.where(F.contains(F.lower("reason"), F.lower(F.lit(reason))))
    # Seconds and not timestamps, which Python would get in the session's time zone.
    records = records.withColumn("time", F.unix_micros("time") / 1e6)
    counts = records.groupBy("state", "reason").agg(F.count("*").alias("records"), F.max("time").alias("newest"))
    reasons = [row.asDict() for row in counts.orderBy(F.desc("records"), "state", "reason").collect()]
    order = (F.desc("time"), F.desc("sequence"), "partitionKey", "messageId", "recordIndex")
    rows = records.orderBy(*order).select(*_NEWEST).limit(newest).collect() if reasons else []
    return Found(sum(one["records"] for one in reasons), reasons, [row.asDict() for row in rows])


def print_bad_records(console: Console, found: Found, nothing: str) -> None:
    """`nothing` is printed if there is none."""
    if not found.records:
        console.print(nothing, soft_wrap=True)
        return
    reasons, newest = Table(), Table()
    for column in ("state", "reason", "records", "newest"):
        reasons.add_column(column, justify="right" if column == "records" else "left", overflow="fold")
    for one in found.reasons[:_MOST_REASONS]:
        reasons.add_row(one["state"], one["reason"], f"{one['records']:,}", _time(one["newest"]))
    console.print(reasons)
    if len(found.reasons) > _MOST_REASONS:
        console.print(f"{len(found.reasons):,} reasons, of which the {_MOST_REASONS} most frequent are shown")
    for column in ("time", "state", "partition", "message id", "record", "reason", "bytes"):
        newest.add_column(column, overflow="fold")
    for one in found.newest:
        index = "-" if one["recordIndex"] is None else str(one["recordIndex"])
        place = (one["partitionKey"], str(one["messageId"]), index)
        newest.add_row(_time(one["time"]), one["state"], *place, one["reason"], _shown(one["value"]))
    console.print(newest)
    console.print(f"{found.records:,} records, of which the newest {len(found.newest):,} are shown")


def bad_records_json(found: Found) -> dict[str, Any]:
    """The same with all bytes."""
    newest = []
    for one in found.newest:
        value = one["value"]
        text = None if value is None else base64.b64encode(value).decode()
        rest = {name: one[name] for name in _NEWEST if name != "value"}
        newest.append({**rest, "time": _iso(one["time"]), "valueBase64": text})
    reasons = [{**one, "newest": _iso(one["newest"])} for one in found.reasons]
    return {"records": found.records, "reasons": reasons, "newest": newest}


def _shown(value: bytes | None) -> str:
    """The first bytes as text; what is not printable ASCII as \\x.."""
    if value is None:
        return "-"
    text = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in value[:_SHOWN_BYTES])
    return text if len(value) <= _SHOWN_BYTES else f"{text}... ({len(value):,} bytes)"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")
