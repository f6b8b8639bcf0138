"""Writes the offsets table from the driver: each batch's end as soon as Spark has committed it.

listener = OffsetsListener(table, query_name="clicks", consumer_group="clicks_etl", topics=["clicks"], source_count=2)
spark.streams.addListener(listener)
"""

from __future__ import annotations

import atexit
import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError, PartitionProgress
from spark_source.offsets.offsets import Offsets
from spark_source.progress.follower import WAITS, Follower
from spark_source.progress.job_thread import JobThread
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["OffsetsListener"]

_log = logging.getLogger(__name__)


class _End(NamedTuple):
    """Where a batch ended."""

    run_id: str
    """The query's."""
    rows: list[PartitionProgress]
    as_of: datetime | None
    """When the sink had it. Positions may go back, so this tells which of two ends is newer, also against the
    planner's. None if Spark does not say."""


class OffsetsListener(StreamingQueryListener):
    """Writes the ends of one query's batches to an offsets table, as a companion of the query's planner.

    `query_name` is the query's `queryName`, because Spark's events do not name the group. `consumer_group`, `topics` or
    `pattern`, and `source_count` are the source's options. A thread of the listener writes the table, one batch at a
    time; only the newest end waits. So a slow table falls behind and then catches up at once. A failure is a warning;
    the write is tried again every 5 s and when the query ends. A driver that exits waits up to 5 s for the last end.
    """

    def __init__(
        self,
        table: OffsetsTable,
        *,
        query_name: str,
        consumer_group: str,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        source_count: int,
    ) -> None:
        self._query_name = query_name
        self._key = GroupKey(consumer_group, topics, pattern=pattern)
        self._companion = table.join_run(self._key, source_count)
        self._thread = JobThread("offsets-listener")
        self._follower = Follower(f"query {query_name}: the offsets table", self._thread, self._write, WAITS)
        self._run_id = ""
        self._last: _End | None = None
        """The last known end of the query's run `_run_id`."""
        atexit.register(self._follower.finish, WAITS.end)

    def onQueryStarted(self, event: Any) -> None:
        if event.name == self._query_name:
            # The run begins at its checkpoint or its starting offsets, so an older run's unwritten end is outdated.
            self._run_id, self._last = str(event.runId), None

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        if progress.get("name") == self._query_name and (rows := self._end(progress["sources"])):
            self._last = _End(str(progress["runId"]), rows, _ended_at(progress))
            self._run_id = self._last.run_id
            self._follower.follow(self._last)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new has come."""

    def onQueryTerminated(self, event: Any) -> None:
        if self._last is not None and self._last.run_id == str(event.runId):
            # Written again, whether it is in the table or not: the planner's late write may have set the table back.
            self._follower.follow(self._last._replace(), at_once=True)

    def flush(self, timeout_seconds: float) -> bool:
        """Write the newest received end, if it is not written yet. False if it is not after `timeout_seconds`, or if
        that failed; a warning has said why, and it is tried again later.

        Spark reports a query's end a moment after `stop()` has returned.
        """
        return self._follower.finish(timeout_seconds) is None

    def _end(self, sources: Iterable[Mapping[str, Any]]) -> list[PartitionProgress]:
        found = [end for end in map(self._end_of, sources) if end]
        if len(found) > 1:
            _log.warning(
                "query %s has %d sources that read topics of %s; it is unknown which of them is the group's, so the "
                "offsets table is not written",
                self._query_name,
                len(found),
                self._key,
            )
            return []
        return found[0] if found else []

    def _end_of(self, source: Mapping[str, Any]) -> list[PartitionProgress]:
        """Where the source's partitions of the group's topics ended; [] for other sources."""
        starts, end, latest = (_offsets(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
        covered = {topic for topic in {key.topic for key in end} if self._key.covers(topic)}
        return [
            PartitionProgress(key, at, latest.get(key), start_offset=starts.get(key))
            for key, at in end.items()
            if key.topic in covered
        ]

    def _write(self, end: _End) -> None:
        """Runs on the thread."""
        if end.run_id != self._run_id:
            return
        try:
            self._companion.record(end.rows, end.as_of)
        except OffsetsTableError:
            raise
        except Exception as error:
            # The error's text might hold secrets.
            raise OffsetsTableError(type(error).__name__) from None


def _ended_at(progress: Mapping[str, Any]) -> datetime | None:
    """When the reported batch was complete; the next one begins later."""
    try:
        return datetime.fromisoformat(progress["timestamp"]) + timedelta(milliseconds=progress["batchDuration"])
    except (KeyError, TypeError, ValueError):
        return None


def _offsets(told: Any) -> Mapping[PartitionKey, int]:
    """A source's offsets in Spark's report; empty if there are none."""
    try:
        return Offsets.from_dict(told)
    except ConfigurationError:
        return {}
