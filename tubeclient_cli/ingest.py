"""The ingest job: a group's topics into a Delta table, each message once.

Within one checkpoint Spark and Delta's transaction ids see to "once". Across checkpoints it is the table itself that
says where its rows end: a new checkpoint starts there, and an old one that is taken up again is refused.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_source.offsets import Offsets
from tubeclient_cli.checkpoint import Checkpoint
from tubeclient_cli.group_position import bring_up_to_date, kept_positions
from tubeclient_cli.progress import BatchEvent
from tubeclient_cli.resume import known_positions, start_text, starting_offsets
from tubeclient_cli.settings import IngestSettings
from tubeclient_cli.sink import DeltaSink, SinkRecord, UnknownRows, check_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["IngestSettings", "IngestSummary", "run_ingest"]

_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What a run did."""

    rows: int
    batches: int
    seconds: float
    rows_behind: int | None
    """After the last batch, at most; None if there was no batch."""
    stopped: bool
    """It was asked to stop; False where it ended by itself."""


def run_ingest(
    spark: SparkSession,
    settings: IngestSettings,
    on_batch: Callable[[BatchEvent], object] = lambda _: None,
    stop: threading.Event | None = None,
    on_start: Callable[[str], object] = lambda _: None,
) -> IngestSummary:
    """Run the job in this session until it ends (available-now), `stop` is set, or it fails.

    `on_start` is called with the words that say where a new checkpoint begins, if it is new, and `on_batch` for each
    completed batch, both in this thread. After `stop` the running batch is waited for, at most
    `settings.stop_timeout_s`. Raises what Spark raises for a failed query, OffsetsTableError, ConfigurationError.
    """
    stop = stop or threading.Event()
    if stop.is_set():
        return IngestSummary(rows=0, batches=0, seconds=0.0, rows_behind=None, stopped=True)
    checkpoint = Checkpoint(spark, settings.checkpoint)
    sink = DeltaSink(spark, settings.target, settings.consumer_group)
    chosen, in_table = settings.starting_offsets, kept_positions(settings)
    try:
        newest = sink.newest_record()
    except UnknownRows:
        if chosen is None and not in_table:
            raise
        newest = None
    in_sink = newest.ends if newest is not None else Offsets({})
    known = known_positions(in_sink, in_table, settings.topics, chosen)
    starting = starting_offsets(known, settings.topics, chosen or "earliest")
    if checkpoint.query_id() is None:
        on_start(start_text(known, in_sink, in_table, settings.topics, chosen))

    rows = spark.readStream.format("tubeclient").options(**settings.options(starting)).load()
    batches = _Batches(sink, checkpoint, settings.consumer_group, newest, known)
    writer = rows.writeStream.foreachBatch(batches.write)
    writer = writer.option("checkpointLocation", settings.checkpoint).queryName(f"ingest {settings.consumer_group}")
    interval_ms = settings.interval_ms
    if interval_ms is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    summary = _Watch(writer.start(), on_batch, stop, settings.stop_timeout_s).until_end()
    bring_up_to_date(settings, batches.in_sink)
    return summary


class _Batches:
    """What foreachBatch calls."""

    def __init__(
        self,
        sink: DeltaSink,
        checkpoint: Checkpoint,
        consumer_group: str,
        newest: SinkRecord | None,
        known: Offsets,
    ) -> None:
        self._sink = sink
        self._checkpoint = checkpoint
        self._consumer_group = consumer_group
        self._newest = newest
        self._known = known
        self._query_id: str | None = None

    @property
    def in_sink(self) -> Offsets:
        """Where the group's rows in the sink end."""
        return self._newest.ends if self._newest is not None else Offsets({})

    def write(self, rows: DataFrame, batch_id: int) -> None:
        if self._query_id is None:
            self._query_id = self._checkpoint.query_id()
        end = self._checkpoint.end_of(batch_id)
        if self._query_id is None or end is None:
            raise RuntimeError(f"Spark runs batch {batch_id} that its own checkpoint does not know")
        # Batch 0 of a checkpoint starts where this run told it to.
        start = self._known if batch_id == 0 else self._checkpoint.end_of(batch_id - 1) or Offsets({})
        check_batch(self._newest, self._query_id, batch_id, start, end)
        record = SinkRecord(self._consumer_group, self._query_id, batch_id, self.in_sink.merge(end))
        self._sink.append(rows, record)
        self._newest = record


class _Watch:
    """Follows a running query: hands its batches on, and stops it at the end of a batch."""

    def __init__(
        self,
        query: StreamingQuery,
        on_batch: Callable[[BatchEvent], object],
        stop: threading.Event,
        stop_timeout_s: float,
    ) -> None:
        self._query = query
        self._on_batch = on_batch
        self._stop = stop
        self._stop_timeout_s = stop_timeout_s
        self._started = time.monotonic()
        self._last: BatchEvent | None = None
        self._batches = 0

    def until_end(self) -> IngestSummary:
        deadline: float | None = None
        batches_then = 0
        try:
            # Raises if the query failed.
            while not self._query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                self._report()
                if not self._stop.is_set():
                    continue
                if deadline is None:
                    deadline, batches_then = time.monotonic() + self._stop_timeout_s, self._batches
                between = self._batches > batches_then or not self._query.status["isTriggerActive"]
                if between or time.monotonic() >= deadline:
                    break
        finally:
            if self._query.isActive:
                self._query.stop()
            self._report()
        return IngestSummary(
            rows=self._last.total_rows if self._last else 0,
            batches=self._batches,
            seconds=time.monotonic() - self._started,
            rows_behind=self._last.rows_behind if self._last else None,
            stopped=deadline is not None,
        )

    def _report(self) -> None:
        for progress in self._query.recentProgress:
            document = json.loads(progress.json)
            # Spark reports idle triggers too, under the number of the batch that is to come.
            done = "addBatch" in document["durationMs"]
            if not done or (self._last is not None and int(document["batchId"]) <= self._last.batch_id):
                continue
            self._last = BatchEvent.of(document, self._last.total_rows if self._last else 0)
            self._batches += 1
            self._on_batch(self._last)
