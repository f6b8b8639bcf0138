"""What queries have done, batch by batch: plain numbers. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tubeclient.counts import Durations, Metric, Sample

__all__ = ["BATCH_SECONDS", "QUERY_METRICS", "QueryBatch", "QueryCounts"]

BATCH_SECONDS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)

_LABELS: Final = ("query",)

_ROWS: Final = Metric(
    "tubeclient_query_rows_total", "counter", _LABELS, "Rows that the query has read from TubeMQ, in complete batches."
)
_BATCHES: Final = Metric("tubeclient_query_batches_total", "counter", _LABELS, "Complete batches that read rows.")
_BAD: Final = Metric(
    "tubeclient_query_bad_records_total",
    "counter",
    _LABELS,
    "Bad records among these rows: of `tubeclient ingest` those that --bad-records took, of other queries those "
    "that they count with bad_rows().",
)
_SECONDS: Final = Metric(
    "tubeclient_query_batch_duration_seconds",
    "histogram",
    _LABELS,
    "Seconds from a batch's planning to its last commit.",
)
_LAST_BATCH: Final = Metric(
    "tubeclient_query_last_batch_timestamp_seconds",
    "gauge",
    _LABELS,
    "When the last batch was complete, since 1970. Of `tubeclient ingest` before its first batch: when it started.",
)
_LAST_TRIGGER: Final = Metric(
    "tubeclient_query_last_trigger_timestamp_seconds",
    "gauge",
    _LABELS,
    "When Spark last looked for new rows, whether there were any or not, since 1970. Of `tubeclient ingest` "
    "before its first look: when it started.",
)
_BEHIND: Final = Metric(
    "tubeclient_query_rows_behind",
    "gauge",
    _LABELS,
    "The most rows that were left to read after the last batch.",
)
_FAILURES: Final = Metric(
    "tubeclient_query_failures_total", "counter", _LABELS, "How often the query ended with an error."
)
QUERY_METRICS: Final = (
    _ROWS,
    _BATCHES,
    _BAD,
    _SECONDS,
    _LAST_BATCH,
    _LAST_TRIGGER,
    _BEHIND,
    _FAILURES,
)
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
        self.rows = 0
        self.batches = 0
        self.bad = 0
        self.failures = 0
        self.durations = Durations(BATCH_SECONDS)
        self.present: dict[Metric, float] = {}


class QueryCounts:
    """Counts of queries, by name. One thread adds."""

    def __init__(self) -> None:
        self._queries: dict[str, _Query] = {}

    def started(self, query: str, at: float) -> None:
        """A query that reads from TubeMQ started, seconds since 1970. Its times count from then on, so that one that
        does nothing at all shows."""
        self._of(query).present |= dict.fromkeys((_LAST_BATCH, _LAST_TRIGGER), at)

    def batch(self, query: str, batch: QueryBatch) -> None:
        """A batch is complete."""
        of = self._of(query)
        of.rows += batch.rows
        of.batches += 1
        of.bad += batch.bad_records
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
        of.failures += failed
        of.present = {}

    def samples(self) -> Iterator[Sample]:
        """All values."""
        for name, of in list(self._queries.items()):
            labels = (name,)
            yield Sample(_ROWS, labels, (of.rows,))
            yield Sample(_BATCHES, labels, (of.batches,))
            yield Sample(_BAD, labels, (of.bad,))
            yield Sample(_SECONDS, labels, of.durations.values)
            yield Sample(_FAILURES, labels, (of.failures,))
            for metric, value in list(of.present.items()):
                yield Sample(metric, labels, (value,))

    def _of(self, query: str) -> _Query:
        return self._queries.setdefault(query, _Query())
