"""The planner's use of the offsets table: positions, and the initial offsets of the query.

Imports offsets_store and its dependencies only if the user configured a table.
"""

from __future__ import annotations

import json
import logging
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.progress.follower import WAITS, Follower, JobThread, NoAnswer, Waits
from spark_source.progress.position import Position, warn_past_ends
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey

if TYPE_CHECKING:
    from offsets_store import OffsetsRun, OffsetsTable, PartitionProgress

__all__ = ["ProgressTable"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ProgressTable:
    """One query's use of the table. Without the option `offsetsTable` every call does nothing.

    The table never leads the query: `record` gets offsets up to which the sink is complete. `offsetsTableMode` decides
    what happens if the table cannot be written. A newer run of the group always ends the query. No call waits longer
    than `waits`, whatever the storage does.
    """

    def __init__(
        self,
        options: SourceOptions,
        clock: Callable[[], float] = time.monotonic,
        table: OffsetsTable | None = None,
        waits: Waits = WAITS,
    ) -> None:
        self._options = options
        self._reads = options.selector()
        self._clock = clock
        self._opened = table
        self._waits = waits
        self._run: OffsetsRun | None = None
        self._thread = JobThread("offsets-table")
        self._follower: Follower[Position] | None = None
        """While the run is open."""
        self._newest: Position | None = None
        """The newest position of `record`."""
        self._finished: Position | None = None

    @property
    def exists(self) -> bool:
        """Whether the user configured a table."""
        return self._options.offsets_table is not None

    def open_run(self, source_count: int) -> None:
        """Begin this query's run, once it holds the group. Raises OffsetsTableError if the table cannot be used."""
        if self.exists:
            from offsets_store import GroupKey, SupersededRun

            # A pattern counts by its text, whatever it matches: the run continues when topics come and go.
            pattern = self._options.subscribe_pattern
            key = GroupKey(self._options.consumer_group, self._options.topics, pattern=pattern and pattern.pattern)
            # This query holds all nodes of the group at the master, so no other run is alive.
            self._run = self._ask(lambda: self._table().open_run(key, source_count, force=True))
            self._follower = Follower(
                "the offsets table",
                self._thread,
                self._write,
                self._waits,
                interval_seconds=self._options.offset_commit_interval_ms / 1000,
                strict=self._options.offsets_table_mode == "strict",
                ends_by=SupersededRun,
                clock=self._clock,
            )

    def positions(self, topics: Iterable[str]) -> Mapping[PartitionKey, int]:
        """Return the group's positions in `topics`, from any run. Raises OffsetsTableError."""
        if not self.exists:
            return {}
        return self._ask(lambda: self._table().positions(self._options.consumer_group, topics))

    def waiting(self, topics: Iterable[str]) -> Mapping[PartitionKey, str]:
        """Return the starting texts of those partitions of `topics` that still wait for an offset, as in
        Offsets.waiting. Raises OffsetsTableError."""
        if not self.exists:
            return {}
        return self._ask(lambda: self._table().waiting(self._options.consumer_group, topics))

    def nodes(self) -> Mapping[PartitionKey, int]:
        """Return each partition's node in the group's last record, under any topics, where known. Raises
        OffsetsTableError."""
        if not self.exists:
            return {}
        kept = self._ask(lambda: self._table().all_latest(self._options.consumer_group))
        runs = sorted(kept, key=lambda progress: progress.run_epoch)
        return {row.partition: row.node_id for run in runs for row in run.partitions if row.node_id is not None}

    def initial(self, starting: str) -> Offsets | None:
        """Return the initial offsets kept for the options' text `starting`. Raises OffsetsTableError."""
        run, question = self._run, self._question(starting)
        kept = None if run is None else self._ask(lambda: run.initial_offsets(question))
        if run is None or kept is None:
            return None
        waiting = self._ask(lambda: run.initial_waiting(question))
        return Offsets.of(kept).with_waiting(waiting)

    @property
    def forget_start(self) -> str:
        """How to begin elsewhere than at the kept initial offsets."""
        from offsets_store.errors import display_uri

        options = self._options
        what = ["--offsets-table", display_uri(options.offsets_table or ""), "--consumer-group", options.consumer_group]
        if options.subscribe_pattern is not None:
            what += ["--topic-pattern", options.subscribe_pattern.pattern]
        for topic in () if options.subscribe_pattern is not None else options.topics:
            what += ["--topic", topic]
        what += ["--master-servers", ",".join(options.master_servers), "--to", "earliest"]
        return f"drop them with `tubeclient offsets reset {shlex.join(what)}`, and begin with a new checkpoint"

    def keep_initial(self, starting: str, offsets: Offsets, bounds: Mapping[StoreKey, StoreBounds]) -> None:
        """Keep the initial offsets until the first batch is complete, and set back positions that are past `bounds`.
        All of it is in the table on return, in either mode; raises OffsetsTableError if that fails."""
        run, question = self._run, self._question(starting)
        if run is not None:
            ends = {key: bounds[key.store].max_offset for key in offsets if key.store in bounds}
            back = self._ask(lambda: run.keep_initial(question, offsets.as_dict(), offsets.waiting, ends))
            warn_past_ends("the offsets table", back)

    def _question(self, starting: str) -> str:
        """Identifies the starting options; another choice of partitions gives another text."""
        return (
            f"{starting} {json.dumps([str(key) for key in self._options.assigned])}"
            if self._options.assigned
            else starting
        )

    def record(self, position: Position) -> None:
        """Record `position`, unless the table has these offsets: now, or once `offsetCommitInterval` is over. A query
        that goes back does not wait.

        Raises SupersededRun if a newer run of the group has written; in strict mode OffsetsTableError if the table
        could not be written.
        """
        if self._follower is None:
            return
        new = self._newest is None or position.complete != self._newest.complete
        if new:
            self._newest = position
        self._follow(self._follower, at_once=new and position.back_from is not None)

    def check(self) -> None:
        """Raise SupersededRun if a commit in the background has found a newer run of the group."""
        if self._follower is not None:
            self._follower.check()

    def finish(self) -> None:
        """Write the newest position and wait a moment for it: this may be the last call.

        Raises as `record` does; other failures are a warning.
        """
        if self._follower is not None and self._newest is not self._finished:
            self._finished = self._newest
            self._follow(self._follower, at_once=True)
            self._tell(self._follower.finish(self._waits.end))

    def close(self) -> None:
        """The same at the query's end; every error is a warning, because nobody would see it."""
        if self._follower is not None:
            from offsets_store import SupersededRun

            try:
                self._tell(self._follower.finish(self._waits.end))
            except SupersededRun as error:
                _log.warning("%s", error)
            self._run = self._follower = None
        self._thread.close()

    def _follow(self, follower: Follower[Position], *, at_once: bool) -> None:
        from offsets_store import OffsetsTableError, SupersededRun

        try:
            follower.follow(self._newest, at_once=at_once)
        except SupersededRun:
            raise
        except (OffsetsTableError, NoAnswer) as error:
            raise OffsetsTableError(
                "the query ends because its offsets table could not be written and offsetsTableMode is strict: "
                f"{self._reason(error).rstrip('.')}. Nothing is lost: repair the table and start the query again; it "
                "continues from its checkpoint. With offsetsTableMode best_effort this is only a warning"
            ) from None

    def _tell(self, reason: str | None) -> None:
        if reason is not None:
            _log.warning(
                "the query ends, but its last position could not be written to the offsets table; the table stays "
                "behind until the query is started again with its checkpoint: %s",
                reason,
            )

    def _write(self, position: Position) -> None:
        """One commit; runs on the table's thread."""
        run = self._run
        if run is None:
            return  # closed meanwhile, without waiting for this write any longer
        run.clear_initial()
        # The checkpoint has partitions that are no longer read; they do not belong to the run.
        rows = [row for row in _progress(position) if self._reads(row.partition)]
        waiting = {key: place for key, place in position.complete.waiting.items() if self._reads(key)}
        run.record(rows, position.as_of, waiting)

    def _ask(self, job: Callable[[], T]) -> T:
        """Return the result of `job`, which the query needs to continue."""
        from offsets_store import OffsetsTableError

        try:
            return self._thread.call(job, self._waits.call)
        except NoAnswer as error:
            raise OffsetsTableError(self._reason(error)) from None

    def _reason(self, error: Exception) -> str:
        from offsets_store.errors import display_uri

        if not isinstance(error, NoAnswer):
            return str(error)
        place = display_uri(self._options.offsets_table or "")
        return f"the offsets table at {place} gave {error}. Check that its storage can be reached and is not overloaded"

    def _table(self) -> OffsetsTable:
        if self._opened is None:
            from offsets_store import OffsetsTable

            assert self._options.offsets_table is not None
            self._opened = OffsetsTable(self._options.offsets_table, dict(self._options.storage_options))
        return self._opened


def _progress(position: Position) -> Iterator[PartitionProgress]:
    """The table's entry for each partition."""
    from offsets_store import PartitionProgress, PartRead

    planned = position.planned
    starts, shared = (planned.start.as_dict(), planned.shared) if planned is not None else ({}, {})
    before: Mapping[PartitionKey, int] = position.back_from or {}
    for key, at in position.complete.items():
        yield PartitionProgress(
            key,
            at,
            position.bounds[key.store].max_offset if key.store in position.bounds else None,
            position.node_of.get(key),
            starts.get(key, at) if planned is not None else before.get(key),
            tuple(PartRead(node, part.start, part.end) for part, node in shared.get(key, ())),
            None if planned is None else planned.why(key),
        )
