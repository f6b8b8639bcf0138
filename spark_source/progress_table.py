"""The planner's use of the offsets table: what was read for certain, and where the query began.

The only module of the planner that knows offsets_store, and it imports that only where the user asked for a table.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from spark_source.offset_spec import Bounds
from spark_source.offsets import Offsets
from spark_source.options import SourceOptions
from tubeclient.keys import PartitionKey, StoreKey

if TYPE_CHECKING:
    from offsets_store import OffsetsRun, OffsetsTable

__all__ = ["ProgressTable"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0


class ProgressTable:
    """One query's use of the table. Without the option `offsetsTable` every call does nothing.

    The table follows the query and never leads it: `record` is called with offsets up to which the sink is complete. A
    table that cannot be written is a warning and tried again, as Spark's checkpoint is what the query goes by; but a
    newer run of the group ends the query.
    """

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._opened: OffsetsTable | None = None
        self._run: OffsetsRun | None = None
        self._recorded: Offsets | None = None
        self._retry_at: float | None = None

    @property
    def exists(self) -> bool:
        """Whether the user asked for a table."""
        return self._options.offsets_table is not None

    def open_run(self, source_count: int) -> None:
        """Begin this query's run, once it holds the group. Raises OffsetsTableError where the table cannot be used."""
        if self.exists:
            from offsets_store import GroupKey

            # By its text, a pattern is one thing whatever it matches: the run goes on when topics come and go.
            pattern = self._options.subscribe_pattern
            key = GroupKey(self._options.consumer_group, self._options.topics, pattern=pattern and pattern.pattern)
            # Whoever holds all nodes of the group at the master knows that no other run does.
            self._run = self._table().open_run(key, source_count, force=True)

    def positions(self, topics: Iterable[str]) -> Mapping[PartitionKey, int]:
        """Return the group's positions in `topics`, of whatever run."""
        if not self.exists:
            return {}
        return self._table().positions(self._options.consumer_group, topics)

    def initial(self, starting: str) -> Offsets | None:
        """Return the kept answer to "where does the query start" for the options' text `starting`."""
        kept = self._run.initial_offsets(self._question(starting)) if self._run is not None else None
        if kept is None:
            return None
        _log.warning(
            "the query begins where a run of its group began whose first batch did not complete; the offsets table has "
            "kept that place. To begin anew, delete the group's rows of kind initial from the table"
        )
        return Offsets.of(kept)

    def keep_initial(self, starting: str, offsets: Offsets) -> None:
        """Keep that answer until the first batch is complete."""
        if self._run is not None:
            self._run.keep_initial(self._question(starting), offsets.as_dict())

    def _question(self, starting: str) -> str:
        """What a kept beginning is the answer to: another choice of partitions asks another question."""
        return (
            f"{starting} {json.dumps([str(key) for key in self._options.assigned_keys])}"
            if self._options.assigned
            else starting
        )

    def wants(self, complete: Offsets) -> bool:
        """Whether `record` would write: it is new, and not too soon after a failure."""
        if self._run is None or complete == self._recorded:
            return False
        return self._retry_at is None or self._clock() >= self._retry_at

    def record(
        self,
        complete: Offsets,
        bounds: Mapping[StoreKey, Bounds],
        node_of: Mapping[PartitionKey, int],
    ) -> None:
        """Make `complete` the group's position. Raises SupersededRun where a newer run of the group has written."""
        if self._run is None or not self.wants(complete):
            return
        from offsets_store import OffsetsTableError, PartitionProgress, SupersededRun

        if self._recorded is None and self._retry_at is None:
            self._warn_if_ahead(complete)
        progress = [
            PartitionProgress(key, at, bounds[key.store].max_offset if key.store in bounds else None, node_of.get(key))
            for key, at in complete.items()
            # The checkpoint knows topics that are no longer read; the run is not theirs.
            if self._options.reads_topic(key.topic)
        ]
        try:
            self._run.clear_initial()
            self._run.record(progress)
        except SupersededRun:
            raise
        except OffsetsTableError as error:
            _log.warning("the offsets table was not written, it stays behind and is tried again: %s", error)
            self._retry_at = self._clock() + _RETRY_SECONDS
        else:
            self._recorded, self._retry_at = complete, None

    def _table(self) -> OffsetsTable:
        if self._opened is None:
            from offsets_store import OffsetsTable

            assert self._options.offsets_table is not None
            self._opened = OffsetsTable(self._options.offsets_table, dict(self._options.storage_options))
        return self._opened

    def _warn_if_ahead(self, complete: Offsets) -> None:
        from offsets_store import OffsetsTableError

        try:
            ahead = _ahead(self.positions({key.topic for key in complete}).items(), complete)
        except OffsetsTableError:
            return  # the record that follows says what is wrong
        if ahead:
            _log.warning(
                "the offsets table is ahead of this query's checkpoint in %d partitions, %s among them: the group was "
                "read on under another checkpoint. This query goes on from its own, and sets the table back to it",
                len(ahead),
                ahead[0],
            )


def _ahead(kept: Iterable[tuple[PartitionKey, int]], complete: Offsets) -> list[PartitionKey]:
    return [key for key, at in kept if at > complete.get(key, at)]
