"""Follows a running query: reports its batches, and stops it at the end of a batch."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from spark_source.progress.query_metrics import is_batch, rows_behind_of
from tubeclient_ingest.progress import IngestSummary, Round

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Watch"]

_POLL_SECONDS = 0.25


class Watch:
    """Follows a running query: reports its batches, and stops it at the end of a batch."""

    def __init__(
        self,
        query: StreamingQuery,
        on_batch: Callable[[Round], object],
        stop: threading.Event,
        stop_timeout_s: float,
        on_first: Callable[[], object] = lambda: None,
    ) -> None:
        """`on_first` is called at most once: when the first batch is seen to run, or to be complete."""
        self._query = query
        self._on_batch = on_batch
        self._stop = stop
        self._stop_timeout_s = stop_timeout_s
        self._on_first: Callable[[], object] | None = on_first
        self._started = time.monotonic()
        self._last: Round | None = None
        self._batches = 0
        self._rows_behind: int | None = None

    def until_end(self) -> IngestSummary:
        deadline: float | None = None
        batches_then = 0
        try:
            # Raises if the query failed.
            while not self._query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                self._report()
                self._look_for_first()
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
            rounds=self._batches,
            seconds=time.monotonic() - self._started,
            rows_behind=self._rows_behind,
            stopped=deadline is not None,
        )

    def _look_for_first(self) -> None:
        if self._on_first is None:
            return
        status = self._query.status
        if self._batches or (status["isTriggerActive"] and status["isDataAvailable"]):
            on_first, self._on_first = self._on_first, None
            on_first()

    def _report(self) -> None:
        for progress in self._query.recentProgress:
            document = json.loads(progress.json)
            # Also a look that finds nothing new says so.
            if (behind := rows_behind_of(document["sources"][0])) is not None:
                self._rows_behind = behind
            number = int(document["batchId"])
            if not is_batch(document) or (self._last is not None and number <= self._last.sequence):
                continue
            seconds, rows = int(document["batchDuration"]) / 1000, progress.numInputRows
            ended = datetime.fromisoformat(document["timestamp"]) + timedelta(seconds=seconds)
            self._last = Round(
                time=ended.isoformat(timespec="milliseconds"),
                sequence=number,
                rows=rows,
                total_rows=(self._last.total_rows if self._last else 0) + rows,
                seconds=seconds,
                rows_per_second=round(rows / seconds, 1) if seconds else 0.0,
                rows_behind=self._rows_behind,
            )
            self._batches += 1
            self._on_batch(self._last)
