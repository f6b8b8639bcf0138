"""The planner's use of the offsets table: what was read for certain, and where the query began.

Knows offsets_store, with what commits for it, and imports that only where the user asked for a table.
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
from spark_source.progress.follower import WAITS, Follower, Waits
from spark_source.progress.job_thread import JobThread, NoAnswer
from spark_source.progress.position import AheadWarning, Position
from tubeclient.keys import PartitionKey

if TYPE_CHECKING:
    from offsets_store import OffsetsRun, OffsetsTable, PartitionProgress

__all__ = ["ProgressTable"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ProgressTable:
    """One query's use of the table. Without the option `offsetsTable` every call does nothing.

    The table follows the query and never leads it: `record` is called with offsets up to which the sink is complete.
    How a table that cannot be written is met is the option `offsetsTableMode`; a newer run of the group ends the query
    in any case. No call waits longer than `waits` says, whatever the storage does.
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
        """While the run is on."""
        self._ahead = AheadWarning("the offsets table", "under another checkpoint", self._reads)
        self._newest: Position | None = None
        """What `record` was called with last, and was news."""
        self._finished: Position | None = None

    @property
    def exists(self) -> bool:
        """Whether the user asked for a table."""
        return self._options.offsets_table is not None

    def open_run(self, source_count: int) -> None:
        """Begin this query's run, once it holds the group. Raises OffsetsTableError where the table cannot be used."""
        if self.exists:
            from offsets_store import GroupKey, SupersededRun

            # By its text, a pattern is one thing whatever it matches: the run goes on when topics come and go.
            pattern = self._options.subscribe_pattern
            key = GroupKey(self._options.consumer_group, self._options.topics, pattern=pattern and pattern.pattern)
            # Whoever holds all nodes of the group at the master knows that no other run does.
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
        """Return the group's positions in `topics`, of whatever run. Raises OffsetsTableError."""
        if not self.exists:
            return {}
        return self._ask(lambda: self._table().positions(self._options.consumer_group, topics))

    def waiting(self, topics: Iterable[str]) -> Mapping[PartitionKey, str]:
        """Return where the group is to begin in those partitions of `topics` that still waited for an offset, as in
        Offsets.waiting. Raises OffsetsTableError."""
        if not self.exists:
            return {}
        return self._ask(lambda: self._table().waiting(self._options.consumer_group, topics))

    def nodes(self) -> Mapping[PartitionKey, int]:
        """Return the node that had each partition when the group was recorded last, with whatever topics, as far as
        that is known. Raises OffsetsTableError."""
        if not self.exists:
            return {}
        kept = self._ask(lambda: self._table().all_latest(self._options.consumer_group))
        runs = sorted(kept, key=lambda progress: progress.run_epoch)
        return {row.partition: row.node_id for run in runs for row in run.partitions if row.node_id is not None}

    def initial(self, starting: str) -> Offsets | None:
        """Return the kept answer to "where does the query start" for the options' text `starting`. Raises
        OffsetsTableError."""
        run, question = self._run, self._question(starting)
        kept = None if run is None else self._ask(lambda: run.initial_offsets(question))
        if run is None or kept is None:
            return None
        waiting = self._ask(lambda: run.initial_waiting(question))
        _log.warning(
            "the query begins where a run of its group began whose first batch did not complete, as far as the offsets "
            "table knows, which has kept that place. If that is not wanted, %s",
            self.forget_start,
        )
        return Offsets.of(kept).with_waiting(waiting)

    @property
    def forget_start(self) -> str:
        """What to do to begin elsewhere than at the kept answer."""
        from offsets_store.errors import display_uri

        options = self._options
        what = ["--offsets-table", display_uri(options.offsets_table or ""), "--consumer-group", options.consumer_group]
        if options.subscribe_pattern is not None:
            what += ["--topic-pattern", options.subscribe_pattern.pattern]
        for topic in () if options.subscribe_pattern is not None else options.topics:
            what += ["--topic", topic]
        what += ["--master-servers", ",".join(options.master_servers), "--to", "earliest"]
        return (
            f"make the offsets table forget that place, `tubeclient offsets reset {shlex.join(what)}`, and begin with "
            "a new checkpoint"
        )

    def keep_initial(self, starting: str, offsets: Offsets) -> None:
        """Keep that answer until the first batch is complete. It is in the table on return, in either mode; raises
        OffsetsTableError where it could not be put there."""
        run, question = self._run, self._question(starting)
        if run is not None:
            self._ask(lambda: run.keep_initial(question, offsets.as_dict(), offsets.waiting))

    def _question(self, starting: str) -> str:
        """What a kept beginning is the answer to: another choice of partitions asks another question."""
        return (
            f"{starting} {json.dumps([str(key) for key in self._options.assigned])}"
            if self._options.assigned
            else starting
        )

    def record(self, position: Position) -> None:
        """Make `position` the group's, unless the table has these offsets: now, or once `offsetCommitInterval` is over.
        A query that goes back waits for no interval.

        Raises SupersededRun where a newer run of the group has written; in strict mode OffsetsTableError where the
        table could not be written.
        """
        if self._follower is None:
            return
        new = self._newest is None or position.complete != self._newest.complete
        if new:
            self._newest = position
        self._follow(self._follower, at_once=new and position.back_from is not None)

    def check(self) -> None:
        """Raise SupersededRun where a commit in the background has found a newer run of the group."""
        if self._follower is not None:
            self._follower.check()

    def finish(self) -> None:
        """Bring the newest position to the table and wait for it a moment: this may have been the last call.

        Raises as `record` does; what could not be written otherwise is a warning.
        """
        if self._follower is not None and self._newest is not self._finished:
            self._finished = self._newest
            self._follow(self._follower, at_once=True)
            self._tell(self._follower.finish(self._waits.end))

    def close(self) -> None:
        """The same for the query's end, when nobody would hear of an error: it is a warning."""
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
                f"{self._reason(error).rstrip('.')}. Nothing is lost: mend the table and start the query again, it "
                "goes on from its checkpoint; with offsetsTableMode best_effort it would have gone on"
            ) from None

    def _tell(self, reason: str | None) -> None:
        if reason is not None:
            _log.warning(
                "the query ends and its last position could not be written to the offsets table, which stays behind "
                "until the query is started again with its checkpoint: %s",
                reason,
            )

    def _write(self, position: Position) -> None:
        """One commit, on the table's thread."""
        run = self._run
        if run is None:
            return  # closed meanwhile, without waiting for this any longer
        self._ahead.compare(
            position.complete,
            lambda: self._table().positions(self._options.consumer_group, {key.topic for key in position.complete}),
        )
        run.clear_initial()
        # The checkpoint knows partitions that are no longer read; the run is not theirs.
        rows = [row for row in _progress(position) if self._reads(row.partition)]
        waiting = {key: place for key, place in position.complete.waiting.items() if self._reads(key)}
        run.record(rows, position.as_of, waiting)

    def _ask(self, job: Callable[[], T]) -> T:
        """Return what `job` returns, which the query cannot go on without."""
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
    """What the table is to hold of each partition."""
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
