"""Lag of running queries for the driver: Spark shows the offsets of Python sources, but not their metrics.

listener = LagListener(print)
spark.streams.addListener(listener)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source.offsets.lag import SourceLag
from spark_source.offsets.offsets import Offsets
from spark_source.progress.bad_rows import observed_bad_rows
from tubeclient.assignment import NO_HINTS, Hints, assign, check_strategy
from tubeclient.errors import ConfigurationError

__all__ = ["LagListener", "QueryLag"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueryLag(SourceLag):
    """How far one source of a query was behind when a batch was planned."""

    query_id: str
    query_name: str | None
    batch_id: int
    source: int
    """Number of the source in the query, from 0."""
    bad_rows: int | None = None
    """Bad messages that the batch has as rows, from all sources of the query. None if the query does not observe
    `bad_rows()`."""


class LagListener(StreamingQueryListener):
    """Calls `on_lag` after each batch with the lag of each tubeclient source of all queries; ignores other sources.

    With `source_count`, the query's option sourceCount, also by node. Give `assignment_strategy` and `assignment_hints`
    (a tubeclient.assignment.Hints) the values of the query's options too. ConfigurationError for invalid values, and
    for `sticky` and `backlog`: the offsets table has their assignments. Custom strategies get neither lag nor history
    here. Without `on_lag` it logs a line at DEBUG. A batch with bad messages is a warning in the log, if the query
    observes `bad_rows()`. Errors of `on_lag` are logged and do not affect the query.
    """

    def __init__(
        self,
        on_lag: Callable[[QueryLag], None] | None = None,
        *,
        source_count: int | None = None,
        assignment_strategy: str = "modulo",
        assignment_hints: Hints = NO_HINTS,
    ) -> None:
        if ":" in assignment_strategy:  # as the source does, but there is no history here
            assignment_hints = replace(assignment_hints, previous={}, lag={})
        check_strategy(assignment_strategy, 1 if source_count is None else source_count, assignment_hints)
        self._on_lag = on_lag or _write
        self._source_count = source_count
        self._assignment = partial(assign, assignment_strategy, hints=assignment_hints)
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
        for lag in self._lags(progress, bad):
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

    def _lags(self, progress: Mapping[str, Any], bad: int | None) -> Iterator[QueryLag]:
        for number, source in enumerate(progress["sources"]):
            try:
                end, latest = Offsets.from_dict(source["endOffset"]), Offsets.from_dict(source["latestOffset"])
            except (ConfigurationError, KeyError):
                continue  # not a tubeclient source
            keys = {*latest, *end}
            by_node = None if self._source_count is None else self._assignment(keys, self._source_count)
            lag = SourceLag.between(end, latest, by_node)
            yield QueryLag(
                lag.by_store,
                lag.at_most_by_node,
                lag.at_most_by_partition,
                query_id=str(progress["id"]),
                query_name=progress.get("name"),
                batch_id=int(progress["batchId"]),
                source=number,
                bad_rows=bad,
            )


def _write(lag: QueryLag) -> None:
    _log.debug("query %s, batch %d: %d messages behind", lag.query_name or lag.query_id, lag.batch_id, lag.rows_behind)
