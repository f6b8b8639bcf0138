"""The group's side of the target: rows and the offsets at which they end, in one commit.

The `userMetadata` of each commit says where the group's rows end in all topics, also those that the run does not read.
So the newest commit says exactly what is in the table. Each commit also carries the group's transaction id with the
group's next number. If two runs use the same number, Delta accepts one: a run that hung and was replaced meanwhile can
no longer write.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tubeclient.errors import ConfigurationError
from tubeclient.flows.effects import backoff_ms
from tubeclient_ingest.commits.beginning import OvertakenRun, UnknownRows, named, overtaken, unknown_rows
from tubeclient_ingest.commits.history import Commit, Harm, SinkState, state_of
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.tables.spark_errors import failure_of, is_conflict, spark_errors
from tubeclient_ingest.tables.table_detail import GroupProperty, TableDetail

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tubeclient_ingest.tables.formats import FilesTable, JobTable

_log = logging.getLogger(__name__)

_HISTORY_STEPS: Final = (1, 20, 1_000, 100_000)
"""How many commits to look through for our newest one, step by step: maintenance may have added its own."""
_TRIES: Final = 10
"""How often to look at a table, or to commit to it, that others change meanwhile."""
_LONGEST_PAUSE_MS: Final = 10_000


class Sink:
    """The target for one consumer group; several groups may share it. With `evolve` it gains columns that it lacks."""

    def __init__(
        self,
        target: JobTable | FilesTable,
        consumer_group: str,
        *,
        evolve: bool = False,
        last_elsewhere: Callable[[TableDetail], int] = lambda _: 0,
        former_elsewhere: Callable[[TableDetail], Mapping[str, int]] = lambda _: {},
        numbers_elsewhere: Callable[[Sequence[str]], tuple[int, int]] = lambda _: (0, 0),
    ) -> None:
        self._target: JobTable | FilesTable = target
        self._consumer_group = consumer_group
        self._evolve = evolve
        self._last_elsewhere = last_elsewhere
        """The group's last number for this target that the job's other tables have."""
        self._former_elsewhere = former_elsewhere
        """The ids of tables that were at the target's place before, as far as the job's other tables have the group's
        rows for them, with the last number of each."""
        self.numbers_after = 0
        """The next number is above it: rows have such ones, whoever wrote them."""
        self._numbers_elsewhere = numbers_elsewhere
        """For the ids that the table has and had: the last number that runs have written rows for elsewhere, and the
        last one that is confirmed there. The next one is above the latter, and above the former if that is more than
        one ahead, as where the table was put back from a copy. One ahead is a run that died, or still tries it: of two
        that take one number Delta lets one through."""
        self._elsewhere: tuple[int, int] | None = None
        """The same, as it was at the first look."""
        self._detail: TableDetail | None = None
        self._newest: Commit | None = None
        """The table's newest commit at the last look."""
        self._stated: Mapping[str, str] | None = None
        """What the table was to say of the group."""

    @property
    def where(self) -> str:
        """The table, for messages."""
        return self._target.where

    def use(self, target: JobTable | FilesTable) -> None:
        """Look at the table in this way from now on."""
        self._target, self._detail, self._newest, self._stated, self._elsewhere = target, None, None, None, None

    def read_state(self, since: int | None = None) -> SinkState:
        """What the newest version of the table says about the group, with the runs of its commits from number `since`
        on, as far as the history goes back."""
        is_first, state = self._elsewhere is None, self._state_now(since)
        # Numbers elsewhere may be of commits that came since.
        return self._state_now(since) if is_first and state.is_put_back else state

    def _state_now(self, since: int | None) -> SinkState:
        for _ in range(_TRIES):
            state = self._read(since)
            if state.is_whole and state.only_others_wrote and self._names_group():
                # As after CREATE TABLE LIKE, which copies properties, and INSERT.
                state = replace(state, is_whole=False, is_copy=True)
            if state.is_whole:
                return self._numbered_on(state)
            whole = self._numbered_on(self._completed(state))
            # A commit of the group between the two looks would have a number, and no record: it would count as undone.
            if (now := self._target.history(1)) and now[0] == self._newest:
                return whole
        raise ConfigurationError(
            f"{self.where} changed between two reads of its history, {_TRIES} times in a row, and the history no "
            f"longer has a commit of group {self._consumer_group}. Pause the table's other writers for a moment"
        )

    def _numbered_on(self, state: SinkState) -> SinkState:
        """`state`, with the last number that the next one has to be above."""
        if self._elsewhere is None:
            self._elsewhere = self._numbers_elsewhere(state.table_ids)
        last, (tried, confirmed) = max(state.sequence, self.numbers_after), self._elsewhere
        ahead = tried if tried > last + 1 else max(last, confirmed)
        # The table no longer has the commits in between.
        is_all = state.record is None and state.is_whole
        undone = ((state.sequence + 1, ahead),) if ahead > last and not is_all else ()
        return replace(state, sequence=ahead, undone_numbers=(*state.undone_numbers, *undone))

    def append(
        self,
        rows: DataFrame | None,
        record: SinkRecord,
        state: SinkState,
        write: Callable[[SinkRecord], None] | None = None,
    ) -> SinkState:
        """Commit rows with their record, on top of `state`. Returns what the table says then: its record is the one
        that was written. `write` commits in another way than to append `rows`.

        After others' DDL or `OPTIMIZE` it is tried again, with pauses, for half a minute. Raises OvertakenRun if
        another run of the group has written since, and UnknownRows if the rows were written all the same, because the
        table forgot the other run's transaction, or if others took the table's rows out meanwhile.
        """
        errors = spark_errors()
        record = state.numbered(record)
        for tries in range(_TRIES):
            try:
                if write is not None:
                    write(record)
                else:
                    self._target.append(rows, record, evolve=self._evolve)
                break
            except errors as error:
                now = None
                with contextlib.suppress(*errors):
                    now = self.read_state()
                if now is not None and now.record not in (state.record, record):
                    raise self._overtaken(record, now) from None
                if tries == _TRIES - 1 or now is None or not _is_still(state, now) or not is_conflict(error):
                    raise
                time.sleep(backoff_ms(tries, random.random(), limit_ms=_LONGEST_PAUSE_MS) / 1_000)
                state = now
                record = state.numbered(record)
        self._name_group(record)
        after = self.read_state(record.sequence)
        self._check_written(record, after)
        return after

    def _name_group(self, record: SinkRecord) -> None:
        """Have the table say itself what its history may forget: that it has rows of the group, and what RESTORE took
        out."""
        ids = (record.table_id, *record.former_ids) if record.table_id and record.former_ids else ()
        own = GroupProperty(record.undone, ids).properties(self._consumer_group)
        detail = self._detail or self.detail()
        if detail is None or own == self._stated or own.items() <= detail.properties.items():
            return
        self._stated = own
        try:
            for tries in range(_TRIES):
                try:
                    self._target.set_properties(own)
                    return
                except spark_errors() as error:
                    if tries == _TRIES - 1 or not is_conflict(error):
                        raise
                    time.sleep(backoff_ms(tries, random.random(), limit_ms=_LONGEST_PAUSE_MS) / 1_000)
        except spark_errors() as error:
            _log.warning(
                "%s cannot get the property %s: %s. Without it, a clone of the table seems to have no rows of the "
                "group once Delta has removed its history",
                *(self.where, *own, failure_of(error)),
            )

    def _check_written(self, record: SinkRecord, after: SinkState) -> None:
        """Raise OvertakenRun or UnknownRows, unless `record` is there, on top of what it was based on, and is the
        newest commit. After it may be retries, and after a retry anything."""
        newest = after.record
        if newest != record:
            goes_on = record.is_retry or (newest is not None and newest.is_retry and newest.ends == record.ends)
            # Delta silently skips a number that is taken.
            if not (goes_on and after.run_of.get(record.sequence) == record.run_id):
                raise self._overtaken(record, after)
        if after.taken_out is not None and after.taken_out.how is Harm.BESIDE:
            raise unknown_rows(after.taken_out, self.where, self._consumer_group)

    def _overtaken(self, record: SinkRecord, now: SinkState) -> OvertakenRun | UnknownRows:
        """The error of a commit that is not the newest one."""
        other = now.record
        if other is None or other.sequence < record.sequence:
            return UnknownRows(
                f"{self.where} was restored or recreated while this run wrote commit {record.sequence} of group "
                f"{self._consumer_group}, which is missing now. Start again: the next run begins where the rows end"
            )
        return overtaken(self.where, other, f"while this one was at {named(record)}, which was not written")

    def _completed(self, state: SinkState) -> SinkState:
        """Complete `state` from the tables themselves where the history is cut: whether the group wrote, its last
        number, and the ids that the table had. A table forgets transactions if its owner says so, and a clone never had
        them."""
        detail = self.detail()  # as it is now
        if detail is None:
            return state
        transaction_id = SinkRecord.transaction_id_of(self._consumer_group)
        last = self._target.last_number(transaction_id, detail) or self._last_elsewhere(detail)
        stated = GroupProperty.of(detail.properties, self._consumer_group)
        if not (last or state.is_copy or state.undone or stated):
            return replace(state, is_whole=True)
        if state.record is not None:  # which says the rest
            return replace(state, sequence=max(state.sequence, last))
        former: Mapping[str, int] = {}
        if stated is None:  # as after CREATE OR REPLACE TABLE
            former = {} if state.is_copy else self._former_elsewhere(detail)
        elif stated.table_ids[:1] == (detail.table_id,):  # else it is a clone
            former = dict.fromkeys(stated.table_ids[1:], 0)
        undone = tuple(sorted({*(stated.undone if stated else ()), *state.undone_numbers}))
        # What is there has the first number at least, for the next commit not to seem the group's first.
        sequence = max(state.sequence, last, 1, *former.values(), *(end for _, end in undone))
        return replace(state, sequence=sequence, former_ids=tuple(former), undone_numbers=undone)

    def _names_group(self) -> bool:
        detail = self._detail or self.detail()
        return detail is not None and GroupProperty.of(detail.properties, self._consumer_group) is not None

    def _read(self, since: int | None) -> SinkState:
        commits: list[Commit] = []
        state = SinkState()
        for limit in _HISTORY_STEPS:
            commits = self._target.history(limit)
            if not commits:
                self._detail = self._newest = None
                return SinkState()
            if self._newest is not None and self._newest not in commits:
                self._detail = None  # perhaps another table is there by now
            self._newest = commits[0]
            state = state_of(commits, self._consumer_group, self._table_id())
            if len(commits) < limit or (state.is_whole and (since is None or min(state.run_of, default=0) <= since)):
                break
        if state.taken_out is not None and state.record is not None and self._detail is not None:
            # By their names and metrics they may have removed rows; the log knows.
            since = -1 if state.record.based_on is None else state.record.based_on
            doubtful = [
                commit.version
                for commit in commits
                if commit.removes and commit.record is None and commit.version > since
            ]
            removing = self._target.removing(doubtful, self._detail.location) if doubtful else set()
            commits = [commit._replace(removes=commit.version in removing) for commit in commits]
            state = state_of(commits, self._consumer_group, self._table_id())
        return state

    def _table_id(self) -> str | None:
        found = self._detail or self.detail()
        return None if found is None else found.table_id

    def detail(self) -> TableDetail | None:
        """What the table is, looked up now; None if there is none."""
        self._detail = self._target.detail()
        return self._detail


def _is_still(state: SinkState, now: SinkState) -> bool:
    """Whether nothing happened between two looks that concerns the group: rows that others removed by a predicate were
    meant to go."""
    taken = now.taken_out
    return (taken is None or not taken.everything) and replace(now, taken_out=None) == replace(state, taken_out=None)
