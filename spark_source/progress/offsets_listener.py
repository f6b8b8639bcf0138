"""The offsets table kept by the driver: the end of each batch as soon as Spark has committed it.

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
from spark_source.progress.job_thread import JobThread, NoAnswer
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["OffsetsListener"]

_log = logging.getLogger(__name__)


class _End(NamedTuple):
    """Where a batch ended."""

    run_id: str
    """Of the query."""
    rows: list[PartitionProgress]
    as_of: datetime | None
    """When it was in the sink. Positions may go back, so this tells what is news and what the planner has told since.
    None where Spark does not say."""


class OffsetsListener(StreamingQueryListener):
    """Writes where the batches of one query end to an offsets table, as the companion of the query's own planner.

    `query_name` is what the query has from `queryName`, as an event of Spark's does not say whose group a source reads
    as; `consumer_group`, `topics` or `pattern`, and `source_count` are the source's options. The table is written from
    a thread of the listener's own, one batch at a time, and only the newest end is kept for it: a slow table falls
    behind the query and then catches up at once, and one that fails is a warning and is tried again every 5 s and when
    the query ends. A driver that ends waits as long for the last end.
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
            # It goes on from its checkpoint, or from where it was told: what an older run left to write is no news.
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
            self._follower.follow(self._last, at_once=True)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was heard of is written or has failed; False if that takes longer than the timeout.

        Spark tells of a query's end a moment after `stop()` has returned.
        """
        try:
            self._thread.call(lambda: None, timeout_seconds)  # it does one job after the other
        except NoAnswer:
            return False
        return True

    def _end(self, sources: Iterable[Mapping[str, Any]]) -> list[PartitionProgress]:
        found = [end for end in map(self._end_of, sources) if end]
        if len(found) > 1:
            _log.warning(
                "query %s has %d sources that read topics of %s; which of them is the group's is not known, and the "
                "offsets table is not written",
                self._query_name,
                len(found),
                self._key,
            )
            return []
        return found[0] if found else []

    def _end_of(self, source: Mapping[str, Any]) -> list[PartitionProgress]:
        """Where the source's partitions of the group's topics ended; [] for a source that is not ours."""
        starts, end, latest = (_offsets(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
        covered = {topic for topic in {key.topic for key in end} if self._key.covers(topic)}
        return [
            PartitionProgress(key, at, latest.get(key), start_offset=starts.get(key))
            for key, at in end.items()
            if key.topic in covered
        ]

    def _write(self, end: _End) -> None:
        """On the thread."""
        if end.run_id != self._run_id:
            return
        try:
            self._companion.record(end.rows, end.as_of)
        except OffsetsTableError:
            raise
        except Exception as error:
            # Its text is not known to be fit for a log.
            raise OffsetsTableError(type(error).__name__) from None


def _ended_at(progress: Mapping[str, Any]) -> datetime | None:
    """When the batch that Spark tells of was complete: the next one begins later."""
    try:
        return datetime.fromisoformat(progress["timestamp"]) + timedelta(milliseconds=progress["batchDuration"])
    except (KeyError, TypeError, ValueError):
        return None


def _offsets(told: Any) -> Mapping[PartitionKey, int]:
    """What Spark tells of a source's offsets; empty where it does not."""
    try:
        return Offsets.from_dict(told)
    except ConfigurationError:
        return {}
