"""The planner's use of the offsets table: positions, and the initial offsets of the query.

Imports offsets_store and its dependencies only if the user configured a table.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.batch_plan import BatchPlan
from spark_source.progress.latest_writer import WAITS, LatestWriter, NoAnswer, Waits
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.printable import display_uri

if TYPE_CHECKING:
    from offsets_store import OffsetsRun, OffsetsTable, PartitionProgress

_log = logging.getLogger(__name__)

T = TypeVar("T")


class QueryProgress(NamedTuple):
    """How far a query is: up to where the sink is complete, with the stores, brokers and nodes of that time."""

    complete: Offsets
    bounds: Mapping[StoreKey, StoreBounds]
    view: ClusterView
    """The brokers that answered."""
    as_of: datetime
    """When this became known."""
    planned: BatchPlan | None = None
    """The batch that ended there; None if an earlier run planned it."""
    back_from: Offsets | None = None
    """The query's position before it went back, because a lost tail was accepted."""
    begins: bool = False
    """Whether the query begins there: nothing is complete yet."""


class ProgressTable:
    """One query's use of the table. Without the option `offsetsTable` every call does nothing.

    The table never leads the query: `record` gets offsets up to which the sink is complete. The query depends on
    Spark's checkpoint alone, so a table that cannot be written is a warning. A newer run of the group ends the query.
    No call waits longer than `waits`, whatever the storage does.
    """

    def __init__(self, options: SourceOptions, table: OffsetsTable | None = None, waits: Waits = WAITS) -> None:
        self._options = options
        self._reads = options.selector()
        self._opened = table
        self._waits = waits
        self._run: OffsetsRun | None = None
        ends_by: type[Exception] | tuple[()] = ()
        if self.exists:
            from offsets_store import SupersededRun as ends_by
        self._writer = LatestWriter("the offsets table", self._write, waits, keeps_up=True, ends_by=ends_by)
        self._finished: QueryProgress | None = None
        self._newest: QueryProgress | None = None
        """Of `record`."""

    @property
    def exists(self) -> bool:
        """Whether the user configured a table."""
        return self._options.offsets_table is not None

    def open_run(self, source_count: int) -> None:
        """Begin this query's run, once it holds the group. Raises OffsetsTableError if the table cannot be used."""
        if self.exists:
            from offsets_store import GroupKey

            # A pattern counts by its text, whatever it matches: the run continues when topics come and go.
            pattern = self._options.subscribe_pattern
            key = GroupKey(self._options.consumer_group, self._options.topics, pattern=pattern and pattern.pattern)
            # This query holds all nodes of the group at the master, so no other run is alive.
            self._run = self._ask(lambda: self._table().open_run(key, source_count, force=True))

    def positions(self, topics: Iterable[str]) -> Mapping[PartitionKey, int]:
        """Return the group's positions in `topics`, from any run. Raises OffsetsTableError."""
        if not self.exists:
            return {}
        return self._ask(lambda: self._table().positions(self._options.consumer_group, topics))

    def nodes(self) -> Mapping[PartitionKey, int]:
        """Return each partition's node in the group's last record, under any topics, where known. Raises
        OffsetsTableError."""
        if not self.exists:
            return {}
        stored = self._ask(lambda: self._table().all_latest(self._options.consumer_group))
        runs = sorted(stored, key=lambda progress: progress.run_epoch)
        return {row.partition: row.node_id for run in runs for row in run.partitions if row.node_id is not None}

    def initial(self) -> Offsets | None:
        """Return the initial offsets kept for these options. Raises OffsetsTableError."""
        run = self._run
        stored = None if run is None else self._ask(lambda: run.initial_offsets(self._options.starting_question))
        return None if stored is None else Offsets.of(stored)

    @property
    def forget_start(self) -> str:
        """How to begin elsewhere than at the kept initial offsets."""
        options = self._options
        what = ["--offsets-table", display_uri(options.offsets_table or ""), "--consumer-group", options.consumer_group]
        if options.subscribe_pattern is not None:
            what += ["--topic-pattern", options.subscribe_pattern.pattern]
        for topic in () if options.subscribe_pattern is not None else options.topics:
            what += ["--topic", topic]
        what += ["--master-servers", ",".join(options.master_servers), "--to", "earliest"]
        return f"drop them with `tubeclient offsets reset {shlex.join(what)}`, and start with a new checkpoint"

    def keep_initial(self, offsets: Offsets, bounds: Mapping[StoreKey, StoreBounds]) -> None:
        """Keep the initial offsets until the first batch is complete, and set back positions that are past `bounds`.
        All of it is in the table on return; raises OffsetsTableError if that fails."""
        run, question = self._run, self._options.starting_question
        if run is not None:
            ends = {key: bounds[key.store].max_offset for key in offsets if key.store in bounds}
            back = self._ask(lambda: run.keep_initial(question, offsets.as_dict(), ends=ends))
            warn_past_ends("the offsets table", back)

    def record(self, position: QueryProgress) -> None:
        """Record `position` in the background; a batch is planned when the one before it is in the table, or the table
        is in trouble. Raises SupersededRun if a newer run of the group has written."""
        if self._run is not None and (self._newest is None or position.complete != self._newest.complete):
            self._newest = position
            self._writer.put(position)
        self.check()

    def check(self) -> None:
        """Raise SupersededRun if a commit in the background has found a newer run of the group."""
        self._writer.check()

    def finish(self) -> None:
        """Wait a moment for the newest position: this may be the last call. Raises as `record` does."""
        if self._newest is not self._finished:
            self._finished = self._newest
            self._flush()

    def close(self) -> None:
        """The same at the query's end; every error is a warning, because nobody would see it."""
        if self._run is not None:
            from offsets_store import SupersededRun

            try:
                self._flush()
            except SupersededRun as error:
                _log.warning("%s", error)
            self._run = None
        self._writer.close()

    def _flush(self) -> None:
        reason = self._writer.finish(self._waits.end)
        if reason is not None:
            _log.warning(
                "the query ends, but its last position could not be written to the offsets table; the table is "
                "behind until you start the query again with its checkpoint: %s",
                reason,
            )

    def _write(self, position: QueryProgress) -> None:
        """One commit; runs on the writer's thread."""
        run = self._run
        if run is None:
            return  # closed meanwhile, without waiting for this write any longer
        run.clear_initial()
        # The checkpoint has partitions that are no longer read; they do not belong to the run.
        run.record([row for row in _progress(position) if self._reads(row.partition)], position.as_of)

    def _ask(self, job: Callable[[], T]) -> T:
        """Return the result of `job`, which the query needs to continue."""
        from offsets_store import OffsetsTableError

        try:
            return self._writer.call(job, self._waits.call)
        except NoAnswer as error:
            raise OffsetsTableError(
                f"the offsets table at {display_uri(self._options.offsets_table or '')} gave {error}. Check that its "
                "storage can be reached and is not overloaded"
            ) from None

    def _table(self) -> OffsetsTable:
        if self._opened is None:
            from offsets_store import OffsetsTable

            assert self._options.offsets_table is not None
            self._opened = OffsetsTable(self._options.offsets_table, dict(self._options.storage_options))
        return self._opened


def _progress(position: QueryProgress) -> Iterator[PartitionProgress]:
    """The table's entry for each partition."""
    from offsets_store import PartitionProgress, PartRead

    planned = position.planned
    starts = planned.start.as_dict() if planned is not None else {}
    shared = planned.shared if planned is not None else {}
    node_of = planned.assignment.node_of if planned is not None else {}
    before: Mapping[PartitionKey, int] = position.back_from or {}
    for key, at in position.complete.items():
        yield PartitionProgress(
            key,
            at,
            position.bounds[key.store].max_offset if key.store in position.bounds else None,
            node_of.get(key),
            starts.get(key, at) if planned is not None else before.get(key),
            tuple(PartRead(node, part.start, part.end) for part, node in shared.get(key, ())),
            None if planned is None else planned.why(key),
        )


def warn_past_ends(where: str, set_back: Sequence[PartitionKey]) -> None:
    """Warn of positions that went back at a query's start, if there are any."""
    if set_back:
        _log.warning(
            "%s was past the end of the brokers' data in %d partitions, such as %s: a topic was recreated, or a "
            "broker lost its newest messages. The group's position is set back to where this query starts",
            where,
            len(set_back),
            set_back[0],
        )
