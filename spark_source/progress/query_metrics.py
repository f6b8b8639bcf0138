"""How far queries are, for people and Prometheus. Spark shows the offsets of Python sources, but takes no metrics from
them.

    spark.streams.addListener(LagListener(print))
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source.offsets.offsets import Offsets
from tubeclient.counts import Metric
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient.keys import StoreKey, rows_behind_by_store

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["QUERY_METRICS", "LagListener", "QueryLag", "QueryMetrics"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueryLag:
    """How far one source of a query was behind when a batch was planned, in rows. Exact if all partitions of each store
    are read without filters; otherwise an upper bound."""

    query_id: str
    query_name: str | None
    batch_id: int
    source: int
    """Number of the source in the query, from 0."""
    by_store: Mapping[StoreKey, int]

    @property
    def rows_behind(self) -> int:
        """Of the group: the sum over all stores."""
        return sum(self.by_store.values())


class LagListener(StreamingQueryListener):
    """Calls `on_lag` after each batch with the lag of each tubeclient source of all queries; ignores other sources.

    Errors of `on_lag` are logged and do not affect the query.
    """

    def __init__(self, on_lag: Callable[[QueryLag], object]) -> None:
        self._on_lag = on_lag

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        for number, source in enumerate(progress["sources"]):
            try:
                end, latest = Offsets.from_dict(source["endOffset"]), Offsets.from_dict(source["latestOffset"])
            except (ConfigurationError, KeyError):
                continue  # another source, or a batch that is run again, for which Spark asks no newest offsets
            # A partition without an end has everything to read; one past its topic's end nothing.
            by_store = rows_behind_by_store(latest, end)
            lag = QueryLag(str(progress["id"]), progress.get("name"), int(progress["batchId"]), number, by_store)
            try:
                self._on_lag(lag)
            except Exception:
                _log.exception("a callback for the lag of query %s failed", lag.query_id)

    def onQueryIdle(self, event: Any) -> None:
        """The last lag is still valid: nothing new has come."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nobody asks for the lag of a query that has ended."""


_BATCH_SECONDS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)


def _metric(name: str, kind: Literal["counter", "gauge", "histogram"], text: str) -> Metric:
    return Metric(f"tubeclient_query_{name}", kind, ("query",), text)


_ROWS: Final = _metric("rows_total", "counter", "Rows that the query has read from TubeMQ, in complete batches.")
_BATCHES: Final = _metric("batches_total", "counter", "Complete batches that read rows.")
_BAD: Final = _metric(
    "bad_records_total",
    "counter",
    "Bad records among these rows, of `tubeclient ingest`: those that --bad-records took.",
)
_SECONDS: Final = _metric("batch_duration_seconds", "histogram", "Seconds from a batch's planning to its last commit.")
_LAST_BATCH: Final = _metric(
    "last_batch_timestamp_seconds",
    "gauge",
    "When the last batch was complete, since 1970. Of `tubeclient ingest` before its first batch: when it started.",
)
_LAST_TRIGGER: Final = _metric(
    "last_trigger_timestamp_seconds",
    "gauge",
    "When Spark last looked for new rows, whether there were any or not, since 1970. Of `tubeclient ingest` "
    "before its first look: when it started.",
)
_BEHIND: Final = _metric("rows_behind", "gauge", "The most rows that were left to read after the last batch.")
_FAILURES: Final = _metric("failures_total", "counter", "How often the query ended with an error.")
QUERY_METRICS: Final = (_ROWS, _BATCHES, _BAD, _SECONDS, _LAST_BATCH, _LAST_TRIGGER, _BEHIND, _FAILURES)
"""All metrics of queries."""


class QueryMetrics:
    """Metrics of queries in a registry of the package prometheus-client. Needs the extra `metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        with brought_by("metrics"):
            import prometheus_client as client

        kinds: dict[str, Any] = {
            "counter": client.Counter,
            "gauge": client.Gauge,
            "histogram": partial(client.Histogram, buckets=_BATCH_SECONDS),
        }
        self._metrics = {
            one: kinds[one.kind](one.name, one.help, one.labels, registry=registry) for one in QUERY_METRICS
        }
        self._last_trigger: dict[str, float] = {}

    def started(self, query: str, at: float) -> None:
        """A query that reads from TubeMQ started, seconds since 1970. Its times count from then on, so that one that
        does nothing at all shows."""
        self._metrics[_LAST_BATCH].labels(query).set(at)
        self.looked(query, at)

    def batch(
        self, query: str, rows: int, seconds: float, ended: float, rows_behind: int | None, bad_records: int = 0
    ) -> None:
        """A batch is complete, at `ended` seconds since 1970. `rows_behind` is None if that is unknown."""
        self._metrics[_FAILURES].labels(query)  # so that it is there, as 0
        for metric, more in ((_ROWS, rows), (_BATCHES, 1), (_BAD, bad_records)):
            self._metrics[metric].labels(query).inc(more)
        self._metrics[_SECONDS].labels(query).observe(seconds)
        self._metrics[_LAST_BATCH].labels(query).set(ended)
        if rows_behind is None:
            with suppress(KeyError):
                self._metrics[_BEHIND].remove(query)
        else:
            self._metrics[_BEHIND].labels(query).set(rows_behind)
        self.looked(query, ended)

    def looked(self, query: str, at: float) -> None:
        """Spark looked for new rows, seconds since 1970."""
        self._last_trigger[query] = max(at, self._last_trigger.get(query, at))
        self._metrics[_LAST_TRIGGER].labels(query).set(self._last_trigger[query])
