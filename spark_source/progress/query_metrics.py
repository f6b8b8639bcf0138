"""What Spark's listeners are told of a query's batches: lag for the driver, and metrics for Prometheus. Spark shows the
offsets of Python sources, but takes no metrics from them.

    spark.streams.addListener(LagListener(print))
    metrics = QueryMetrics()
    spark.streams.addListener(metrics)
    REGISTRY.register(metrics)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source.offsets.offsets import Offsets
from tubeclient.counts import Durations
from tubeclient.counts import Metric as Counted
from tubeclient.errors import ConfigurationError
from tubeclient.keys import StoreKey, rows_behind_by_store
from tubeclient.metrics import families, need_prometheus

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["QUERY_METRICS", "LagListener", "QueryBatch", "QueryLag", "QueryMetrics"]

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
        for number, by_store in _behind(progress).items():
            if by_store is None:
                continue
            lag = QueryLag(str(progress["id"]), progress.get("name"), int(progress["batchId"]), number, by_store)
            try:
                self._on_lag(lag)
            except Exception:
                _log.exception("a callback for the lag of query %s failed", lag.query_id)

    def onQueryIdle(self, event: Any) -> None:
        """The last lag is still valid: nothing new has come."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nobody asks for the lag of a query that has ended."""


def _behind(progress: Mapping[str, Any]) -> dict[int, Mapping[StoreKey, int] | None]:
    """The rows that each tubeclient source is behind, by its number and by store; None if the progress does not say:
    Spark asks for the newest offsets when it plans a batch, and not when it runs one again."""
    found: dict[int, Mapping[StoreKey, int] | None] = {}
    for number, source in enumerate(progress["sources"]):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if end is not None:
            # A partition without an end has everything to read; one past its topic's end nothing.
            found[number] = None if latest is None else rows_behind_by_store(latest, end)
    return found


def _offsets(given: Any) -> Offsets | None:
    """None if these are no offsets of a tubeclient source."""
    try:
        return Offsets.from_dict(given)
    except ConfigurationError:
        return None


BATCH_SECONDS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)

_LABELS: Final = ("query",)

_ROWS: Final = Counted(
    "tubeclient_query_rows_total", "counter", _LABELS, "Rows that the query has read from TubeMQ, in complete batches."
)
_BATCHES: Final = Counted("tubeclient_query_batches_total", "counter", _LABELS, "Complete batches that read rows.")
_BAD: Final = Counted(
    "tubeclient_query_bad_records_total",
    "counter",
    _LABELS,
    "Bad records among these rows, of `tubeclient ingest`: those that --bad-records took.",
)
_SECONDS: Final = Counted(
    "tubeclient_query_batch_duration_seconds",
    "histogram",
    _LABELS,
    "Seconds from a batch's planning to its last commit.",
)
_LAST_BATCH: Final = Counted(
    "tubeclient_query_last_batch_timestamp_seconds",
    "gauge",
    _LABELS,
    "When the last batch was complete, since 1970. Of `tubeclient ingest` before its first batch: when it started.",
)
_LAST_TRIGGER: Final = Counted(
    "tubeclient_query_last_trigger_timestamp_seconds",
    "gauge",
    _LABELS,
    "When Spark last looked for new rows, whether there were any or not, since 1970. Of `tubeclient ingest` "
    "before its first look: when it started.",
)
_BEHIND: Final = Counted(
    "tubeclient_query_rows_behind",
    "gauge",
    _LABELS,
    "The most rows that were left to read after the last batch.",
)
_FAILURES: Final = Counted(
    "tubeclient_query_failures_total", "counter", _LABELS, "How often the query ended with an error."
)
QUERY_METRICS: Final = (_ROWS, _BATCHES, _BAD, _SECONDS, _LAST_BATCH, _LAST_TRIGGER, _BEHIND, _FAILURES)
"""All metrics of queries."""


class QueryBatch(NamedTuple):
    """One complete batch."""

    rows: int
    seconds: float
    ended: float
    """Seconds since 1970."""
    rows_behind: int | None
    """None if it is unknown."""
    bad_records: int = 0


class _Query:
    def __init__(self) -> None:
        self.sums = dict.fromkeys((_ROWS, _BATCHES, _BAD, _FAILURES), 0)
        self.durations = Durations(BATCH_SECONDS)
        self.present: dict[Counted, float] = {}


class QueryMetrics(StreamingQueryListener):
    """A listener of Spark, and a collector for a registry of the package prometheus-client: the batches, the lag and
    the failures of all queries that read from TubeMQ.

    The label `query` is the query's name, or its id if it has none. Needs the extra `metrics`. One thread adds:
    Spark's, which tells of the events.
    """

    def __init__(self) -> None:
        need_prometheus()
        self._queries: dict[str, _Query] = {}
        self._names: dict[str, str] = {}

    def describe(self) -> Iterable[Metric]:
        """The metrics without values."""
        return families(QUERY_METRICS, {}, BATCH_SECONDS)

    def collect(self) -> Iterable[Metric]:
        """The metrics with their present values."""
        found: dict[tuple[Counted, tuple[str, ...]], tuple[float, ...]] = {}
        for name, of in list(self._queries.items()):
            for metric, value in [*of.sums.items(), *list(of.present.items())]:
                found[metric, (name,)] = (value,)
            found[_SECONDS, (name,)] = of.durations.values
        return families(QUERY_METRICS, found, BATCH_SECONDS)

    def started(self, query: str, at: float) -> None:
        """A query that reads from TubeMQ started, seconds since 1970. Its times count from then on, so that one that
        does nothing at all shows."""
        self._of(query).present |= dict.fromkeys((_LAST_BATCH, _LAST_TRIGGER), at)

    def batch(self, query: str, batch: QueryBatch) -> None:
        """A batch is complete."""
        of = self._of(query)
        for metric, more in ((_ROWS, batch.rows), (_BATCHES, 1), (_BAD, batch.bad_records)):
            of.sums[metric] += more
        of.durations.add(batch.seconds)
        of.present[_LAST_BATCH] = batch.ended
        if batch.rows_behind is None:
            of.present.pop(_BEHIND, None)
        else:
            of.present[_BEHIND] = batch.rows_behind
        self.looked(query, batch.ended)

    def looked(self, query: str, at: float) -> None:
        """Spark looked for new rows, seconds since 1970."""
        present = self._of(query).present
        present[_LAST_TRIGGER] = max(at, present.get(_LAST_TRIGGER, at))

    def ended(self, query: str, *, failed: bool) -> None:
        """The query has ended, so nothing is behind any more; its sums stay."""
        of = self._of(query)
        of.sums[_FAILURES] += failed
        of.present = {}

    def _of(self, query: str) -> _Query:
        return self._queries.setdefault(query, _Query())

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet, not even whether the query reads from TubeMQ."""

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        sources = _behind(progress)
        if not sources:
            return
        began = datetime.fromisoformat(progress["timestamp"]).timestamp()
        seconds = int(progress["batchDuration"]) / 1000
        query = self._names[str(progress["id"])] = progress.get("name") or str(progress["id"])
        # Spark reports idle triggers too, with the number of the next batch.
        if "addBatch" not in progress["durationMs"]:
            self.looked(query, began)
            return
        behind = [None if by_store is None else sum(by_store.values()) for by_store in sources.values()]
        rows = sum(int(progress["sources"][number]["numInputRows"]) for number in sources)
        known = None if None in behind else sum(one or 0 for one in behind)
        self.batch(query, QueryBatch(rows, seconds, began + seconds, known))

    def onQueryIdle(self, event: Any) -> None:
        query = self._names.get(str(event.id))
        if query is not None:
            self.looked(query, datetime.fromisoformat(event.timestamp).timestamp())

    def onQueryTerminated(self, event: Any) -> None:
        query = self._names.pop(str(event.id), None)
        if query is not None:
            self.ended(query, failed=event.exception is not None)
