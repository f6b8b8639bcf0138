"""Metrics of running queries for Prometheus. Spark takes none from a Python source, but tells listeners of batches.

metrics = QueryMetrics()
spark.streams.addListener(metrics)
REGISTRY.register(metrics)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source.offsets.offsets import Offsets
from spark_source.progress.lag_listener import observed_bad_rows
from spark_source.progress.query_counts import BATCH_SECONDS, QUERY_METRICS, QueryBatch, QueryCounts
from tubeclient.errors import ConfigurationError
from tubeclient.keys import rows_behind
from tubeclient.metrics import families, need_prometheus

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["QueryMetrics", "is_batch", "rows_behind_of"]


class QueryMetrics(StreamingQueryListener):
    """A listener of Spark, and a collector for a registry of the package prometheus-client: the batches, the lag and
    the failures of all queries that read from TubeMQ.

    The label `query` is the query's name, or its id if it has none. Bad records are counted for queries that observe
    `bad_rows()`. Needs the extra `metrics`.

    >>> metrics = QueryMetrics()  # doctest: +SKIP
    >>> spark.streams.addListener(metrics)  # doctest: +SKIP
    >>> REGISTRY.register(metrics)  # doctest: +SKIP
    """

    def __init__(self) -> None:
        need_prometheus()
        self.counts = QueryCounts()
        self._names: dict[str, str] = {}

    def describe(self) -> Iterable[Metric]:
        """The metrics without values."""
        return families(QUERY_METRICS, {}, BATCH_SECONDS)

    def collect(self) -> Iterable[Metric]:
        """The metrics with their present values."""
        found = {(metric, labels): values for metric, labels, values in self.counts.samples()}
        return families(QUERY_METRICS, found, BATCH_SECONDS)

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet, not even whether the query reads from TubeMQ."""

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        sources = [source for source in progress["sources"] if _offsets(source.get("endOffset")) is not None]
        if not sources:
            return
        began = datetime.fromisoformat(progress["timestamp"]).timestamp()
        seconds = int(progress["batchDuration"]) / 1000
        query = self._names[str(progress["id"])] = progress.get("name") or str(progress["id"])
        if not is_batch(progress):
            self.counts.looked(query, began)
            return
        behind = [rows_behind_of(source) for source in sources]
        self.counts.batch(
            query,
            QueryBatch(
                sum(int(source["numInputRows"]) for source in sources),
                seconds,
                began + seconds,
                None if None in behind else sum(rows for rows in behind if rows is not None),
                observed_bad_rows(progress) or 0,
            ),
        )

    def onQueryIdle(self, event: Any) -> None:
        query = self._names.get(str(event.id))
        if query is not None:
            self.counts.looked(query, datetime.fromisoformat(event.timestamp).timestamp())

    def onQueryTerminated(self, event: Any) -> None:
        query = self._names.pop(str(event.id), None)
        if query is not None:
            self.counts.ended(query, failed=event.exception is not None)


def is_batch(progress: Mapping[str, Any]) -> bool:
    """Whether a progress is about a batch. Spark reports idle triggers too, with the number of the next batch."""
    return "addBatch" in progress["durationMs"]


def rows_behind_of(source: Mapping[str, Any]) -> int | None:
    """The most rows that are left to read after a batch, by a source's part of Spark's progress. None if it does not
    say: Spark asks for the newest offsets when it plans a batch, and not when it runs one again."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    return None if end is None or latest is None else rows_behind(latest, end)


def _offsets(told: Any) -> Offsets | None:
    """None if these are no offsets of a tubeclient source."""
    try:
        return Offsets.from_dict(told)
    except ConfigurationError:
        return None
