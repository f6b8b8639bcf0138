"""Which bad records count, judged by the target's history: against a table that is followed step by step."""

from __future__ import annotations

import sqlite3
import typing
from collections.abc import Collection, Iterable
from typing import Any
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from tests.simulation.target import MemoryTarget, TargetLog
from tubeclient_ingest.commits.history import Commit, SinkState, committed
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.tables.table_detail import GroupProperty

OLD = 3
STEPS = (3, 1_000)

Row = tuple[int, str]
"""A bad record's number and run."""


def last_of(confirmed: Collection[Row]) -> int:
    return max((number for number, _ in confirmed), default=0)


def unconfirmed(rows: Iterable[Row], confirmed: Collection[Row]) -> set[Row]:
    return {one for one in rows if one[0] > last_of(confirmed)}


def counting(state: SinkState, rows: Collection[Row], confirmed: Collection[Row] = ()) -> set[Row]:
    there = {one for one in unconfirmed(rows, confirmed) if state.run_of.get(*one) == one[1]}  # as Writer.unconfirmed
    with sqlite3.connect(":memory:") as table:
        table.execute("CREATE TABLE bad (sequence, runId, isConfirmed)")
        table.executemany("INSERT INTO bad VALUES (?, ?, ?)", [(*one, one in confirmed) for one in rows])
        found = set(table.execute(f"SELECT sequence, runId FROM bad WHERE {committed(state, there)}").fetchall())
    table.close()
    return found


class CutLog(TargetLog):
    """A table that forgets the beginning of its history."""

    first = 0

    def commits(self, limit: int) -> list[Commit]:
        return [one for one in super().commits(limit) if one.version >= self.first]


class World:
    """A target, its table of bad records with a row for each number that a run has tried, and what is true of both.

    `held` are the commits that each version of the target has; `effective` is the version with the group's newest one.
    """

    def __init__(self) -> None:
        self.log = CutLog()
        self.target = target = typing.cast(Any, MemoryTarget(self.log, lambda _: None))
        self.numbers = 0, 0
        self.sink = Sink(target, "g", numbers_elsewhere=lambda _: self.numbers)
        self.rows: set[Row] = set()
        self.ever: set[Row] = set()
        target.create(None, GroupProperty().properties("g"))
        self.held: list[frozenset[Row]] = [frozenset()]
        self.effective: list[int | None] = [None]
        self.runs = 0
        self.zombie = (0, "")
        self.written_down: set[Row] = set()
        self.firsts: list[int] = []
        """Where the history began when each version was made."""
        self.commit(bad=False)
        self.start()

    @property
    def run(self) -> str:
        return f"r{self.runs}"

    def read_state(self) -> SinkState:
        return self.sink.read_state()

    def start(self) -> None:
        """A new run, which looks at the table of bad records. The one before may still be at work."""
        self.zombie = (self.read_state().sequence + 1, self.run)
        self.runs += 1
        self.sink.use(self.target)
        confirmed = last_of(self.written_down)
        self.numbers = max(confirmed, last_of(self.rows)), confirmed

    def whole_look(self) -> SinkState:
        """As `Writer` does it for the table of bad records."""
        state = self.read_state()
        rows = unconfirmed(self.rows, self.written_down)
        return self.sink.read_state(min(rows)[0]) if rows else state

    def confirm(self, chosen: int = 1) -> None:
        """Write down what commits stand for; and remove what none does, unless others write there."""
        now, rows = self.whole_look(), unconfirmed(self.rows, self.written_down)
        void = {one for one in rows if now.run_of.get(*one) != one[1]}
        there = {one for one in rows - void if one[0] <= now.sequence}
        if void or any(one[0] <= now.sequence - OLD for one in there):
            self.written_down |= there
        if chosen % 2:
            self.rows -= void

    def commit(self, *, bad: bool = True) -> None:
        state = self.read_state()
        record = state.numbered(SinkRecord("g", self.run, Offsets({})))
        if bad:
            self.rows.add((record.sequence, self.run))
        after = self.sink.append(None, record, state)
        self.ever.add((after.sequence, self.run))
        self.effective.append(len(self.held))
        self.held.append(self.held[-1] | {(after.sequence, self.run)})
        for _ in self.log.versions[len(self.held) :]:  # that set a property
            self.effective.append(self.effective[-1])
            self.held.append(self.held[-1])

    def die(self) -> None:
        """After the bad records, before the commit."""
        self.rows.add((self.read_state().sequence + 1, self.run))
        self.start()

    def overtaken(self) -> None:
        """A retry of bad records commits first: the round takes the next number."""
        number, run = self.read_state().sequence + 1, self.run
        self.rows.add((number, run))
        self.runs += 1
        self.commit()
        self.runs -= 1
        self.commit()

    def late(self) -> None:
        """The run before this one writes its bad records, and loses."""
        number, run = self.zombie
        state = self.read_state()
        known = [one.record.sequence for one in self.log.commits(1_000) if one.record is not None]
        if known and (number <= last_of(self.written_down) or min(known) <= number <= state.sequence):
            self.rows.add((number, run))

    def restore(self, chosen: int) -> None:
        version = self.log.first + chosen % (len(self.log.versions) - self.log.first)
        self.log.restore(version)
        self.held.append(self.held[version])
        self.effective.append(self.effective[version])

    def optimize(self) -> None:
        self.log.optimize()
        self.held.append(self.held[-1])
        self.effective.append(self.effective[-1])

    def cut(self, chosen: int) -> None:
        """Delta forgets all but the newest one to three commits, of which one may be others'. A job wrote before
        that."""
        self.start()
        self.commit()
        self.confirm()
        if chosen % 2 == 0:
            self.optimize()
        self.know_firsts()
        self.log.first = max(self.log.first, len(self.log.versions) - 1 - chosen // 2 % 3)

    def put_back(self, chosen: int) -> None:
        """The table's folder is replaced by a copy of an earlier time, with the history that it had then."""
        self.know_firsts()
        version = self.log.first + chosen % (len(self.log.versions) - self.log.first)
        self.log.first = self.firsts[version]
        for of_versions in (self.log.versions, self.log._properties, self.held, self.effective, self.firsts):
            del of_versions[version + 1 :]
        self.log.properties = dict(self.log._properties[version])
        self.start()

    def know_firsts(self) -> None:
        self.firsts += [self.log.first] * (len(self.log.versions) - len(self.firsts))

    def check(self) -> None:
        self.know_firsts()
        found = counting(self.whole_look(), self.rows, self.written_down)
        there, never = self.rows & self.held[-1], self.rows - self.ever
        assert there <= found, "a bad record is nowhere"
        assert not never & found, "a record counts that no commit stands for"
        assert found == there, "what RESTORE took out counts"


steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "commit",
                "commit",
                "start",
                "confirm",
                "die",
                "overtaken",
                "late",
                "restore",
                "optimize",
                "cut",
                "put_back",
            ]
        ),
        st.integers(0, 30),
    ),
    max_size=40,
)


@given(steps)
@example([("commit", 0), ("restore", 0), ("cut", 5), ("restore", 0)])
def test_bad_records_count_with_their_commit(steps: list[tuple[str, int]]) -> None:
    """A bad record counts if the target has its commit, and only then."""
    with patch("tubeclient_ingest.rounds.sink._HISTORY_STEPS", STEPS):
        world = World()
        for step, chosen in steps:
            if step in ("restore", "cut", "confirm", "put_back"):
                getattr(world, step)(chosen)
            else:
                getattr(world, step)()
            world.check()


def test_without_a_valid_commit_all_or_nothing_counts() -> None:
    """RESTORE put the target back to before the group's first commit, or the history no longer has any."""
    rows = {(1, "r"), (2, "r"), (3, "r")}
    assert counting(SinkState(sequence=2), rows) == set()
    assert counting(SinkState(sequence=2, is_whole=False), rows) == {(1, "r"), (2, "r")}
