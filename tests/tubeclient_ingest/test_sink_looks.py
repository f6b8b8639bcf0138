"""What the sink sees of a table that others change, between two looks and during its own commits. Without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.errors import PySparkException

from spark_source.offsets.offsets import Offsets
from tests.simulation.target import MemoryTarget, TargetLog
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.beginning import OvertakenRun, UnknownRows
from tubeclient_ingest.commits.history import Commit, Harm, SinkState, TakenOut
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.tables.table_detail import GroupProperty, TableDetail

KEY = PartitionKey(1, "clicks", 0)
KEPT = 3
"""Commits that the history has."""


def record(end: int, run: str = "r", group: str = "g") -> SinkRecord:
    return SinkRecord(group, run, Offsets({KEY: end}))


class Table:
    """What the tables below have in common."""

    where = "/target"
    properties: Mapping[str, str] = MappingProxyType(GroupProperty().properties("g"))

    def detail(self) -> TableDetail:
        columns: Any = None
        return TableDetail("id", "/target", columns, self.properties)

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        return set()


class Cut(Table):
    """A table of a group's commits, of which the history has lost all but maintenance. `late` commits of the group come
    between the look at the history and the one at the transactions, one at each look."""

    def __init__(
        self, late: int = 0, sequence: int = 7, *, groups: Sequence[str] = (), operation: str = "OPTIMIZE"
    ) -> None:
        self._late = late
        self.properties = {name: value for one in groups for name, value in GroupProperty().properties(one).items()}
        self.sequence = sequence
        self._commits = [Commit(number, operation, {}, {}, None) for number in range(10, 10 + KEPT)]

    @property
    def version(self) -> int:
        return self._commits[-1].version

    def history(self, limit: int) -> list[Commit]:
        return self._commits[::-1][:limit]

    def last_number(self, transaction_id: str, detail: TableDetail) -> int:
        assert transaction_id == "tubeclient:g"
        if self._late:
            self._late -= 1
            self.sequence += 1
            written = SinkRecord("g", "other", Offsets({KEY: 280}), self.sequence, self.version)
            self._commits.append(Commit(self.version + 1, "WRITE", {"mode": "Append"}, {}, written))
        return self.sequence


def read_state(table: Any) -> SinkState:
    return Sink(table, "g").read_state()


def test_commit_between_two_reads() -> None:
    """A commit between two reads of the table does not count as undone."""
    state = read_state(Cut(late=1))
    assert state.record is not None
    assert (state.record.run_id, state.sequence, state.version) == ("other", 8, 13)
    again = state.numbered(state.record)
    assert (again.sequence, again.undone) == (9, state.record.undone)


@pytest.mark.parametrize(("groups", "is_named"), [("", False), (("h", "gg"), False), ("hg", True), ("g", True)])
def test_group_named_in_a_cut_table(groups: Sequence[str], is_named: bool) -> None:
    """A table with a cut history says in a property whether the group ever wrote to it."""
    state = read_state(Cut(sequence=0, groups=groups))
    assert (state.record, state.sequence, state.is_whole) == (None, int(is_named), not is_named)
    # Then its next commit does not say that all topics are known from there on.
    assert (state.numbered(record(28)).known_from == 1) == (not is_named)
    wrote = read_state(Cut())
    assert (wrote.sequence, wrote.is_whole) == (7, False)
    copy = read_state(Cut(sequence=0, operation="CLONE"))
    assert (copy.is_copy, copy.is_whole) == (True, False)
    # Or another table of the job.
    assert Sink(Cut(sequence=0), "g", last_elsewhere=lambda _: 9).read_state().sequence == 9  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "sequence", "former", "undone"),
    [
        (None, 11, ("elsewhere",), ()),
        (GroupProperty(), 7, (), ()),
        (GroupProperty(((2, 3),), ("id", "before")), 7, ("before",), ((2, 3),)),
        (GroupProperty(((2, 3), (8, 9)), ("of the source", "before")), 9, (), ((2, 3), (8, 9))),
    ],
    ids=["replaced", "nothing", "own", "clone"],
)
def test_undone_and_former_ids_in_a_cut_table(
    said: GroupProperty | None, sequence: int, former: tuple[str, ...], undone: tuple[tuple[int, int], ...]
) -> None:
    """After CREATE OR REPLACE it says nothing, and the table of bad records does."""
    table = Cut()
    table.properties = {} if said is None else said.properties("g")
    state = Sink(table, "g", former_elsewhere=lambda _: {"elsewhere": 11}).read_state()  # type: ignore[arg-type]
    following = state.numbered(record(28))
    copy = Cut(operation="CLONE")
    assert Sink(copy, "g", former_elsewhere=lambda _: {"elsewhere": 11}).read_state().former_ids == ()  # type: ignore[arg-type]
    assert (state.sequence, following.former_ids, following.undone) == (sequence, former, undone)


def test_commits_own_record_in_a_cut_history() -> None:
    """The sink trusts a commit's own record and asks nowhere else, though the history is cut."""
    table = Cut()
    table._commits = [Commit(10, "WRITE", {"mode": "Append"}, {}, replace(record(28), sequence=7, based_on=5))]
    state = Sink(table, "g", former_elsewhere=lambda _: {"elsewhere": 11}).read_state()  # type: ignore[arg-type]
    assert (state.is_whole, state.sequence, state.record and state.record.sequence) == (False, 7, 7)


@pytest.mark.parametrize("text", ["true", "{}", '{"undone": [[1]], "tableIds": []}', "x"])
def test_tampered_group_property(text: str) -> None:
    """The sink raises one clear error if somebody changed the table's property of the group."""
    [name] = GroupProperty().properties("g")
    table = Cut()
    table.properties = {name: text}
    with pytest.raises(ConfigurationError, match=rf"property {name} of the target is .*; remove it"):
        read_state(table)


class Restless(Table):
    """A table whose columns others change during each write, until `quiet`. From version `emptied` on a DELETE of all
    rows is in its history."""

    def __init__(self, quiet: int, emptied: int = 1_000) -> None:
        self._quiet = quiet
        self._emptied = emptied
        self.tries = 0
        self.written: SinkRecord | None = None
        self.based_on: list[int | None] = []

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        return {self._emptied}.intersection(versions)

    def history(self, limit: int) -> list[Commit]:
        first = SinkRecord("g", "r", Offsets({KEY: 28}), 1, table_id="id")
        commits = [Commit(0, "WRITE", {"mode": "Append"}, {}, first)]
        names = dict.fromkeys(range(1, self.tries + 1), "SET TBLPROPERTIES") | {self._emptied: "DELETE"}
        commits += [Commit(number, names[number], {}, {}, None) for number in range(1, self.tries + 1)]
        if self.written is not None:
            commits[-1] = Commit(self.tries, "WRITE", {"mode": "Append"}, {}, self.written)
        return commits[::-1][:limit]

    def append(self, rows: object, record: SinkRecord, *, evolve: bool) -> None:
        self.tries += 1
        self.based_on.append(record.based_on)
        if self.tries <= self._quiet:
            raise PySparkException("[DELTA_METADATA_CHANGED] MetadataChangedException: by a concurrent update")
        self.written = record


@pytest.mark.parametrize(("quiet", "emptied", "tries"), [(0, 99, 1), (3, 99, 4), (9, 99, 10), (99, 99, 10), (99, 1, 1)])
def test_tries_while_others_change_the_table(
    quiet: int, emptied: int, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink tries a commit up to ten times while others change only the table's columns."""
    pauses: list[float] = []
    monkeypatch.setattr("tubeclient_ingest.rounds.sink.time.sleep", pauses.append)
    table: Any = Restless(quiet, emptied)
    sink = Sink(table, "g")
    state = sink.read_state()
    with pytest.raises(PySparkException, match="METADATA") if quiet > tries else contextlib.nullcontext():
        after = sink.append(None, record(56), state)
        assert after.record is not None
        assert (after.record.based_on, after.sequence, after.ends) == (quiet, 2, Offsets({KEY: 56}))
    assert table.based_on == list(range(tries))
    # Whoever changes the table gets time to end it.
    assert len(pauses) == tries - 1
    assert tries < 10 or 15 < sum(pauses) < 40


class Anew(Table):
    """A table with one commit, which was removed and made anew so many `times`."""

    times = 0

    def detail(self) -> TableDetail:
        return super().detail()._replace(table_id=f"id {self.times}")

    def history(self, limit: int) -> list[Commit]:
        first = replace(record(28), sequence=1, table_id="id 0")
        at = datetime(2026, 11, 28, 0, self.times, tzinfo=UTC)
        return [Commit(0, "WRITE", {"mode": "Append"}, {}, first, removes=False, written=at)]


def test_table_recreated_between_reads() -> None:
    """A table that somebody recreates between two reads counts as another one."""
    table: Any = Anew()
    sink = Sink(table, "g")
    assert sink.read_state().taken_out is None
    table.times += 1
    assert sink.read_state().taken_out == TakenOut(0, "WRITE", everything=True, how=Harm.MOVED)


class Bench:
    """A table in memory, and sinks of runs. At `point` of the next write `act` comes first."""

    def __init__(self) -> None:
        self.log = TargetLog()
        self.log.properties |= GroupProperty().properties("g")
        self._acts: dict[str, Callable[[], object]] = {}
        self.sink().append(None, record(28), SinkState())

    def sink(self, pause: Callable[[str], None] | None = None) -> Sink:
        target: Any = MemoryTarget(self.log, pause or self._pause)
        return Sink(target, "g")

    def before(self, point: str, act: Callable[[], object]) -> None:
        self._acts[point] = act

    def by_another_run(self, end: int = 56) -> None:
        sink = self.sink(lambda _: None)
        sink.append(None, record(end, "r2"), sink.read_state())

    def by_a_retry(self) -> None:
        sink = self.sink(lambda _: None)
        state = sink.read_state()
        assert state.record is not None
        sink.append(None, replace(state.record, run_id="r3", retry_of=state.record.round), state)

    def twice(self, end: int = 56) -> None:
        self.by_another_run(end)
        self.by_a_retry()

    def forgotten(self) -> None:
        self.by_another_run()
        self.log.versions[-1].transaction = None

    def _pause(self, point: str) -> None:
        if (act := self._acts.pop(point, None)) is not None:
            act()


@pytest.mark.parametrize("point", ["look", "write", "commit"])
@pytest.mark.parametrize(("act", "other"), [(Bench.by_another_run, "2 of run r2"), (Bench.twice, "3 of run r3")])
def test_overtaken_before_the_commit(point: str, act: Callable[[Bench], None], other: str) -> None:
    """Delta passes over a number that is taken when the write begins, and says nothing."""
    bench = Bench()
    late = bench.sink()
    state = late.read_state()
    if point == "look":
        act(bench)
    else:
        bench.before(point, lambda: act(bench))
    with pytest.raises(OvertakenRun, match=rf"wrote commit {other} to target while .* at commit 2 of run r, which"):
        late.append(None, record(56), state)
    assert all(one.run_id != "r" for one in bench.log.records if one.sequence > 1)


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (Bench.by_another_run, OvertakenRun, "wrote commit 3 of run r2"),
        (lambda bench: bench.twice(84), OvertakenRun, "wrote commit 4 of run r3"),
        (lambda bench: bench.log.restore(0), UnknownRows, "was restored or recreated while .* commit 2 of group g"),
        (lambda bench: bench.log.versions.clear(), UnknownRows, "was restored or recreated"),
    ],
)
def test_acts_between_commit_and_check(act: Callable[[Bench], None], error: type[Exception], text: str) -> None:
    """The sink reports a run or a RESTORE that comes between its commit and the check of it."""
    bench = Bench()
    sink = bench.sink()
    state = sink.read_state()
    bench.before("answer", lambda: act(bench))
    with pytest.raises(error, match=text):
        sink.append(None, record(56), state)


def test_retry_and_round_after_a_commit() -> None:
    """A retry just after a round, or a round just after a retry, leaves the first in the table."""
    bench = Bench()
    sink = bench.sink()
    state = sink.read_state()
    bench.before("answer", bench.by_a_retry)
    after = sink.append(None, record(56), state)
    assert after.record is not None
    assert (after.record.run_id, after.ends, after.sequence) == ("r3", Offsets({KEY: 56}), 3)
    bench.before("answer", bench.by_another_run)
    assert sink.append(None, replace(after.record, run_id="r", retry_of=2), after).sequence == 5


def test_acts_between_read_and_commit() -> None:
    """A commit that the table's transactions let through beside another one of the group is an error at once."""
    bench = Bench()
    sink = bench.sink()
    state = sink.read_state()
    bench.before("write", lambda: bench.log.restore(0))
    after = sink.append(None, record(56), state)
    assert after.taken_out == TakenOut(1, "RESTORE", everything=True)
    late = bench.sink()
    bench.forgotten()
    with pytest.raises(UnknownRows, match="was written at the same time as another run of the group"):
        late.append(None, record(84), after)


def test_lost_answer_of_a_commit() -> None:
    """The write fails, and yet the table has it: whoever asks the table need not write again."""
    bench = Bench()
    sink = bench.sink()
    state = sink.read_state()

    def lost() -> None:
        raise PySparkException("the answer is lost")

    bench.before("answer", lost)
    with pytest.raises(PySparkException, match="the answer is lost"):
        sink.append(None, record(56), state)
    assert sink.read_state().ends == {KEY: 56}
    assert [one.record.sequence for one in bench.log.commits(9) if one.record] == [2, 1]
