"""Lag of running queries for the driver: Spark shows the offsets of Python sources, but not their metrics.

listener = LagListener(print)
spark.streams.addListener(listener)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreKey, rows_behind_by_store

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["LagListener", "QueryLag", "bad_rows", "observed_bad_rows"]

_log = logging.getLogger(__name__)

_NAME: Final = "tubeclientBadRows"


def bad_rows() -> Column:
    """The number of rows with a `badReason`, for `DataFrame.observe`; `LagListener` finds it in each batch's progress.

    >>> events = clicks.observe("bad messages", bad_rows())  # doctest: +SKIP
    """
    from pyspark.sql import functions

    return functions.count("badReason").alias(_NAME)


def observed_bad_rows(progress: Mapping[str, Any]) -> int | None:
    """The bad messages of a batch, from the JSON of its progress: the sum of all observed `bad_rows`. None if the query
    observes none.
    """
    observed = progress.get("observedMetrics", {}).values()
    counts = [int(one[_NAME]) for one in observed if one is not None and one.get(_NAME) is not None]
    return sum(counts) if counts else None


@dataclass(frozen=True, slots=True)
class QueryLag:
    """How far one source of a query was behind when a batch was planned, in rows.

    Exact per store and for the group, if all partitions of each store are read without filters; otherwise an upper
    bound. For partitions always an upper bound: partitions of a store share one index, which does not say how many
    messages belong to which partition.
    """

    query_id: str
    query_name: str | None
    batch_id: int
    source: int
    """Number of the source in the query, from 0."""
    by_store: Mapping[StoreKey, int]
    at_most_by_partition: Mapping[PartitionKey, int]
    bad_rows: int | None = None
    """Bad messages that the batch has as rows, from all sources of the query. None if the query does not observe
    `bad_rows()`."""

    @property
    def rows_behind(self) -> int:
        """Of the group: the sum over all stores."""
        return sum(self.by_store.values())


class LagListener(StreamingQueryListener):
    """Calls `on_lag` after each batch with the lag of each tubeclient source of all queries; ignores other sources.

    Without `on_lag` it logs a line at DEBUG. A batch with bad messages is a warning in the log, if the query observes
    `bad_rows()`. Errors of `on_lag` are logged and do not affect the query.
    """

    def __init__(self, on_lag: Callable[[QueryLag], None] | None = None) -> None:
        self._on_lag = on_lag or _write
        self._last: dict[tuple[str, int], QueryLag] = {}

    @property
    def last(self) -> Mapping[tuple[str, int], QueryLag]:
        """The last lag of each running query, by (query id, number of the source)."""
        return dict(self._last)

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        bad = observed_bad_rows(progress)
        if bad:
            query = progress.get("name") or progress["id"]
            _log.warning("query %s, batch %s: %d bad messages came as rows", query, progress["batchId"], bad)
        for lag in _lags(progress, bad):
            self._last[lag.query_id, lag.source] = lag
            try:
                self._on_lag(lag)
            except Exception:
                _log.exception("a callback for the lag of query %s failed", lag.query_id)

    def onQueryIdle(self, event: Any) -> None:
        """The last lag is still valid: nothing new has come."""

    def onQueryTerminated(self, event: Any) -> None:
        for key in [key for key in self._last if key[0] == str(event.id)]:
            del self._last[key]


def _lags(progress: Mapping[str, Any], bad: int | None) -> Iterator[QueryLag]:
    for number, source in enumerate(progress["sources"]):
        try:
            end, latest = Offsets.from_dict(source["endOffset"]), Offsets.from_dict(source["latestOffset"])
        except (ConfigurationError, KeyError):
            continue  # not a tubeclient source
        yield QueryLag(
            str(progress["id"]),
            progress.get("name"),
            int(progress["batchId"]),
            number,
            # A partition without an end has everything to read; one past its topic's end nothing.
            rows_behind_by_store(latest, end),
            {key: max(0, at - end.get(key, 0)) // INDEX_ENTRY_BYTES for key, at in latest.items()},
            bad,
        )


def _write(lag: QueryLag) -> None:
    _log.debug("query %s, batch %d: %d messages behind", lag.query_name or lag.query_id, lag.batch_id, lag.rows_behind)
