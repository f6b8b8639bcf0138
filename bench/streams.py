"""Streaming measurements that are the same for `format("tubeclient")` and `format("kafka")`.

Both have a column `value`. Spark itself says, to the millisecond, when a row is in the sink: the progress of a
micro-batch has the beginning of its trigger and the time of each step up to the end of the sink's work (`arrived_ms`).
So no callback to Python and no polling is measured. The sink is Spark's own memory sink, which is among the fastest.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_source.session_confs import session_confs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["FirstRow", "StreamRun", "arrived_ms", "available_now", "batch_read", "first_row", "latencies"]

Options = Mapping[str, str]
Progress = Mapping[str, Any]

_TABLE_SECONDS: Final = 240
_FIRST_ROW_SECONDS: Final = 60.0
_LAST_ROWS_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05
# Spark keeps the last hundred progresses of a query otherwise; here are ten a second.
_KEPT_PROGRESSES: Final = {"spark.sql.streaming.numRecentProgressUpdates": "20000"}


class StreamRun(NamedTuple):
    """One filling of a Delta table."""

    rows: int
    batches: int
    seconds: float
    phases_ms: Mapping[str, int]
    """Spark's own account, summed over the batches: how long each part took. Empty for a batch read."""

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


class FirstRow(NamedTuple):
    """One start of a query."""

    seconds: float
    """From the call of `start` until the first batch is in the sink."""
    load_seconds: float
    """Of the `load` before, which is not in it: the Python source tells its schema there."""
    phases_ms: Mapping[str, int]
    """Spark's own account of that batch: how long each part took."""


def available_now(
    spark: SparkSession, fmt: str, options: Options, folder: Path, rows: int, batches: int = 10
) -> StreamRun:
    """Stream `rows` rows, all that there are, into a new Delta table below `folder`, in about `batches` micro-batches.

    The time is from `start` to the end of `awaitTermination`. RuntimeError: not within 240 s, or other rows.
    """
    given = {**options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(-(-rows // batches))}
    stream = spark.readStream.format(fmt).options(**given).load()
    table = str(folder / "table")
    writer = stream.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    with session_confs(spark, _KEPT_PROGRESSES):
        started = time.perf_counter()
        query = writer.trigger(availableNow=True).start(table)
        try:
            ended = query.awaitTermination(_TABLE_SECONDS)
            seconds = time.perf_counter() - started
        finally:
            query.stop()
        if not ended:
            raise RuntimeError(f"{fmt}: AvailableNow did not end within {_TABLE_SECONDS} s")
        made = [one for one in query.recentProgress if one["numInputRows"] > 0]
    phases: Counter[str] = Counter()
    for one in made:
        phases.update(one["durationMs"])
    return StreamRun(_rows_of(spark, table, rows), len(made), seconds, dict(phases))


def batch_read(spark: SparkSession, fmt: str, options: Options, folder: Path, rows: int) -> StreamRun:
    """The same with a batch read, which is one write. RuntimeError: other rows than `rows`."""
    table = str(folder / "table")
    frame = spark.read.format(fmt).options(**options).option("startingOffsets", "earliest").load()
    started = time.perf_counter()
    frame.write.format("delta").save(table)
    seconds = time.perf_counter() - started
    return StreamRun(_rows_of(spark, table, rows), 1, seconds, {})


def first_row(spark: SparkSession, fmt: str, options: Options) -> FirstRow:
    """Start a query at the earliest offsets of a topic that has messages; until the first of them are in the sink.

    The topic, or maxOffsetsPerTrigger, is to be small, since the first batch has all there is. The session is to be
    warm. RuntimeError: no rows within 60 s.
    """
    loading = time.perf_counter()
    stream = _values(spark, fmt, options)
    load_seconds = time.perf_counter() - loading
    started_ms = time.time_ns() / 1e6
    with _memory_query(stream) as query:
        deadline = time.monotonic() + _FIRST_ROW_SECONDS
        while True:
            first = next((one for one in query.recentProgress if one["numInputRows"] > 0), None)
            if first is not None:
                seconds = (arrived_ms(first) - started_ms) / 1000
                return FirstRow(seconds, load_seconds, dict(first["durationMs"]))
            _check(query, fmt)
            if time.monotonic() >= deadline:
                raise RuntimeError(f"{fmt}: no row within {_FIRST_ROW_SECONDS:.0f} s of the start")
            time.sleep(_LOOK_SECONDS)


def latencies(
    spark: SparkSession,
    fmt: str,
    options: Options,
    send: Callable[[bytes], None],
    *,
    seconds: float = 25.0,
    warm_up_seconds: float = 5.0,
    interval_seconds: float = 0.05,
    trigger_ms: int = 100,
) -> list[float]:
    """Seconds from the moment a message is handed to `send` until its row is in the sink, for each message.

    A query with this trigger runs on a topic of its own, while a message each `interval_seconds`, on average, is sent:
    at random moments, so that they fall on all phases of the trigger. Those of the warm-up are not in the list.
    RuntimeError: a message is missing 30 s after the last one was sent.
    """
    with session_confs(spark, _KEPT_PROGRESSES):
        stream = _values(spark, fmt, options)
        with _memory_query(stream, trigger_ms) as query:
            # A first batch there is to be before the clock counts.
            sent = [_send_now(send)]
            _await_rows(spark, query, fmt, sent)
            sent += _send_for(send, warm_up_seconds, interval_seconds)
            counted_from = time.time_ns()
            sent += _send_for(send, seconds, interval_seconds)
            bodies = _await_rows(spark, query, fmt, sent)
            arrivals = _arrivals(query.recentProgress)
    if len(arrivals) != len(bodies):
        raise RuntimeError(f"{fmt}: the progress tells of {len(arrivals)} rows, the sink has {len(bodies)}")
    at_sink = dict(zip(bodies, arrivals, strict=True))
    return [(at_sink[body] - body / 1e6) / 1000 for body in sent if body >= counted_from]


def arrived_ms(progress: Progress) -> float:
    """When a micro-batch was in the sink, milliseconds since 1970.

    A trigger does one step after the other. After the sink's step Spark only notes that the batch is complete.
    """
    began = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
    durations = progress["durationMs"]
    return began + float(durations["triggerExecution"]) - float(durations.get("commitOffsets", 0))


def _arrivals(progresses: Sequence[Progress]) -> list[float]:
    """For each row in the order of the batches, when its batch was in the sink."""
    return [arrived_ms(one) for one in progresses for _ in range(one["numInputRows"])]


def _values(spark: SparkSession, fmt: str, options: Options) -> DataFrame:
    given = {**options, "startingOffsets": "earliest"}
    return spark.readStream.format(fmt).options(**given).load().select("value")


@contextmanager
def _memory_query(stream: DataFrame, trigger_ms: int = 0) -> Iterator[StreamingQuery]:
    name = f"bench_{uuid.uuid4().hex}"
    writer = stream.writeStream.format("memory").queryName(name).trigger(processingTime=f"{trigger_ms} milliseconds")
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()
        stream.sparkSession.catalog.dropTempView(name)


def _send_now(send: Callable[[bytes], None]) -> int:
    """Send the time as a body, nanoseconds since 1970."""
    now = time.time_ns()
    send(b"%d" % now)
    return now


def _send_for(send: Callable[[bytes], None], seconds: float, interval_seconds: float) -> list[int]:
    sent: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(random.uniform(0.5, 1.5) * interval_seconds)
        sent.append(_send_now(send))
    return sent


def _await_rows(spark: SparkSession, query: StreamingQuery, fmt: str, sent: Sequence[int]) -> list[int]:
    """All bodies in the sink, in its order, as soon as those in `sent` are there and in the progress."""
    deadline = time.monotonic() + _LAST_ROWS_SECONDS
    while True:
        told = sum(one["numInputRows"] for one in query.recentProgress)
        bodies = [int(bytes(row.value)) for row in spark.table(query.name).collect()]
        if len(bodies) == told and not set(sent).difference(bodies):
            return bodies
        _check(query, fmt)
        if time.monotonic() >= deadline:
            lacking = len(set(sent).difference(bodies))
            raise RuntimeError(f"{fmt}: {lacking} of {len(sent)} messages are missing, {told} rows in the progress")
        time.sleep(_LOOK_SECONDS)


def _check(query: StreamingQuery, fmt: str) -> None:
    if not query.isActive:
        raise RuntimeError(f"{fmt}: the query has ended: {query.exception()}")


def _rows_of(spark: SparkSession, table: str, rows: int) -> int:
    there = spark.read.format("delta").load(table).count()
    if there != rows:
        raise RuntimeError(f"the table has {there} rows, the topic {rows}")
    return there
