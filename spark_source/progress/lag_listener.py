"""How far queries are. Spark shows the offsets of Python sources, but takes no metrics from them.

spark.streams.addListener(LagListener(print))
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import StoreKey, rows_behind_by_store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueryLag:
    """How far one source of a query was behind when a batch was planned, in rows.

    The number is exact if all partitions of each store are read without filters. Otherwise it is an upper bound.
    """

    query_id: str
    query_name: str | None
    batch_id: int
    source: int
    """Number of the source in the query, from 0."""
    by_store: Mapping[StoreKey, int]

    @property
    def rows_behind(self) -> int:
        """How many rows the source was behind: the sum over all stores."""
        return sum(self.by_store.values())


class LagListener(StreamingQueryListener):
    """Calls `on_lag` after each batch with the lag of each tubeclient source of all queries; ignores other sources.

    Args:
        on_lag: Called with one `QueryLag` for each source. Its errors are logged and do not affect the query.
    """

    def __init__(self, on_lag: Callable[[QueryLag], object]) -> None:
        self._on_lag = on_lag

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: no lag is known yet."""

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
        """Do nothing: no new data has come, so the last lag is still valid."""

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing: the query has ended."""
