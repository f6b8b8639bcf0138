"""What a run knows of a table, and what it says when others changed it. Without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_source.offsets.offsets import Offsets
from tests.simulation.target import MemoryTarget, TargetLog
from tests.tubeclient_ingest.test_sink_looks import Cut
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.beginning import OtherCluster, OvertakenRun, TableChanged, UnknownRows, of_stream
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import Count, Reached, SinkRecord
from tubeclient_ingest.rounds import group_table
from tubeclient_ingest.rounds.group_table import GroupTable
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.tables.table_detail import GroupProperty
from tubeclient_ingest.tasks.counting import Counted

KEY = PartitionKey(1, "clicks", 0)
SETTINGS = IngestSettings(master_servers="m:1", consumer_group="g", topics=("clicks",), target="/lake/t")


class Writing:
    """In place of a Writer."""

    def __init__(self, target: Any, elsewhere: tuple[int, int] = (0, 0)) -> None:
        self.sink = Sink(target, "g", numbers_elsewhere=lambda _: elsewhere)
        self.confirmed: list[int] = []

    def write(self, rows: None, record: SinkRecord, state: SinkState) -> tuple[SinkState, Counted]:
        return self.sink.append(rows, record, state), Counted()

    def confirm(self, state: SinkState) -> None:
        self.confirmed.append(state.sequence)


class Bench:
    """A table in memory with the handles of several runs. Before the next write `act` is done."""

    def __init__(self) -> None:
        self.log = TargetLog()
        self.act: Callable[[], object] = lambda: None
        self.target().create(None, GroupProperty().properties("g"))

    def target(self) -> Any:
        return MemoryTarget(self.log, self._pause)

    def run(self, run_id: str = "r", chosen: str | None = None, *, masters: tuple[str, ...] = ("m:1",)) -> GroupTable:
        table = handle(self.target(), masters=masters)
        table.begin(chosen, ())
        table.run_id = run_id
        return table

    def by_another_run(self) -> None:
        self.run("r2").write(None, at(84))

    def by_a_retry(self) -> None:
        sink = Sink(self.target(), "g")
        state = sink.read_state()
        assert state.record is not None
        sink.append(None, replace(state.record, retry_of=state.record.round), state)

    def restored_by_time(self) -> None:
        self.log.restore(len(self.log.versions) - 1)
        self.log.versions[-1].parameters.clear()

    def _pause(self, point: str) -> None:
        if point == "write":
            act, self.act = self.act, lambda: None
            act()


def handle(target: Any, advice: str | None = None, masters: tuple[str, ...] = ("m:1",)) -> GroupTable:
    writer: Any = Writing(target)
    return GroupTable(writer, SETTINGS, masters, advice)


def at(end: int) -> Offsets:
    return Offsets({KEY: end})


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check looks at the table."""
    monkeypatch.setattr(group_table, "READ_AGAIN_SECONDS", -1.0)


@pytest.mark.usefixtures("looks")
def test_upkeep_and_retries_between_rounds() -> None:
    """A run goes on if OPTIMIZE or retries commit between two of its rounds."""
    bench = Bench()
    table = bench.run()
    table.check()
    table.write(None, at(28))
    for act in (bench.log.optimize, bench.by_a_retry, bench.by_a_retry):
        act()
        table.check()
    assert (table.state.sequence, table.number, table.state.ends) == (3, 1, at(28))
    table.write(None, at(56))
    assert (table.number, table.state.ends) == (4, at(56))


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize("rounds", [0, 2])
def test_another_run_between_rounds(rounds: int) -> None:
    """A run ends if another one commits between its rounds, or begins anew if it has none yet."""
    bench = Bench()
    table = bench.run()
    for number in range(rounds):
        table.write(None, at(28 * number))
    bench.by_another_run()
    # Without a commit of its own a run begins once more.
    text = "wrote commit 3 of run r2 to target while this one was at commit 2 of run r.$" if rounds else "^$"
    with pytest.raises(OvertakenRun if rounds else TableChanged, match=text.removesuffix(".$")):
        table.check()
    with pytest.raises(TableChanged):
        table.check(waited=True)


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize(
    "acts",
    [
        [lambda bench: bench.log.restore(1)],
        [lambda bench: bench.log.restore(0)],
        [lambda bench: bench.log.restore(1), Bench.by_a_retry],
        [Bench.restored_by_time],
    ],
)
def test_restore_between_rounds(
    acts: list[Callable[[Bench], None]],
) -> None:
    """A run begins anew if somebody restores the table between two of its rounds."""
    bench = Bench()
    table = bench.run()
    table.write(None, at(28))
    table.write(None, at(56))
    for act in acts:
        act(bench)
    with pytest.raises(TableChanged):
        table.check()


def test_target_accepts_only_earlier_changes() -> None:
    """With starting-offsets target a run accepts changes from before it, not those during it."""
    bench = Bench()
    bench.run().write(None, at(28))
    bench.restored_by_time()
    with pytest.raises(UnknownRows, match="RESTORE"):
        bench.run()
    table = handle(bench.target())
    assert table.begin("target", ())
    assert (table.state.ends, table.state.taken_out) == (at(28), None)
    table.write(None, at(28))
    assert not handle(bench.target()).begin(None, ())
    bench.act = bench.restored_by_time
    with pytest.raises(UnknownRows, match="RESTORE"):
        table.write(None, at(56))


def test_cut_history_needs_a_start() -> None:
    """A run on a table with a truncated history begins only if the user says where."""
    advised = of_stream("orders")
    for advice, chosen in ((None, None), (None, "target"), (advised, None), (advised, "earliest")):
        with pytest.raises(UnknownRows, match="its history does not say"):
            handle(Cut(), advice=advice).begin(chosen, ())
    anew, orders = handle(Cut()), handle(Cut(), advice=advised)
    assert anew.begin(None, ["clicks"])
    assert orders.begin("target", ())
    assert (anew.number, anew.is_known, orders.number) == (7, False, 7)


def test_reset_topics_and_another_cluster() -> None:
    """A run drops the offsets of topics that begin anew and refuses another cluster's rows."""
    bench = Bench()
    table = bench.run()
    assert (table.number, table.is_known, table.is_old) == (0, True, False)
    table.write(None, at(28), {"a": Reached(3)}, (Count(None, 2),))
    found = bench.log.record
    assert found is not None
    assert (found.masters, found.streams, found.counts) == (("m:1",), {"a": Reached(3)}, (Count(None, 2),))
    with pytest.raises(OtherCluster):
        bench.run(masters=("other:1",))
    again = handle(bench.target())
    assert not again.begin(None, ["clicks"])
    assert (again.state.ends, again.number, again.is_old) == (Offsets({}), 1, False)


def test_record_in_a_cut_history() -> None:
    """A run trusts a record that a truncated history still has, and knows when it is old."""
    table = Bench().run()
    for days in (0, 2):
        written = datetime.now(UTC) - timedelta(days=days)
        table.state = SinkState(SinkRecord("g", "r", at(28), 7), 7, is_whole=False, written=written)
        assert (table.is_known, table.number, table.is_old) == (True, 7, days > 0)


def test_when_bad_records_are_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run confirms bad records at its first commit, and then every few commits or seconds."""
    monkeypatch.setattr(group_table, "_CONFIRM_COMMITS", 3)
    bench = Bench()
    bench.run().write(None, at(28))
    table = bench.run()
    for number in range(7):
        table.write(None, at(28 * number))
    writer: Any = table._writer
    assert writer.confirmed == [2, 5, 8]
    monkeypatch.setattr(group_table, "_CONFIRM_SECONDS", -1.0)
    table.write(None, at(28))
    assert writer.confirmed == [2, 5, 8, 9]
