"""The sink's table on Delta: who may write to it, and what it knows when others did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from spark_source.offsets.offsets import Offsets
from tests.tubeclient_ingest.lake import cut_history
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.beginning import OvertakenRun, UnknownRows, trusted
from tubeclient_ingest.commits.history import SinkState, TakenOut
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tables.table_detail import GroupProperty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A = PartitionKey(1, "clicks", 0)


class Table:
    """A table, the handles of several runs on it, and what was written."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = path

    def sink(self, group: str = "g") -> Sink:
        target = SparkTable(self.spark, str(self.path))
        target.create(self.rows().schema, properties=GroupProperty().properties(group))
        sink = Sink(target, group)
        sink.detail()
        return sink

    def write(self, value: int, number: int, run_id: str = "q", group: str = "g") -> SinkState:
        """By a run that looks and writes."""
        sink = self.sink(group)
        return sink.append(self.rows(value), record(number, run_id, group), sink.read_state())

    def rows(self, *values: int) -> DataFrame:
        return self.spark.createDataFrame([(value,) for value in values], "value bigint")

    def held_up(self, value: int, gate: Path) -> DataFrame:
        """A row whose task waits until there is a file `gate`, and says that it does by one beside it."""

        def hold(batches: Iterator[object]) -> Iterator[object]:
            gate.with_suffix(".reached").touch()
            wait_for(gate.exists, "the gate to open", seconds=60)
            yield from batches

        return self.rows(value).coalesce(1).mapInArrow(hold, "value bigint")

    def values(self) -> list[int]:
        found: list[int] = DeltaTable(str(self.path)).to_pyarrow_table().column("value").to_pylist()
        return sorted(found)


@pytest.fixture
def table(delta_spark: SparkSession, tmp_path: Path) -> Table:
    return Table(delta_spark, tmp_path / "table")


def record(number: int, run_id: str = "q", group: str = "g") -> SinkRecord:
    return SinkRecord(group, run_id, Offsets({A: 28 * (number + 1)}))


def test_groups_that_write_at_once_are_all_named(table: Table) -> None:
    SparkTable(table.spark, str(table.path)).create(table.rows().schema)
    sinks = {name: table.sink(name) for name in ("a", "b", "c")}
    states = {name: sink.read_state() for name, sink in sinks.items()}
    for name, sink in sinks.items():
        sink.append(table.rows(1), record(0, group=name), states[name])
    named = DeltaTable(str(table.path)).metadata().configuration
    for name in "abc":
        assert GroupProperty().properties(name).items() <= named.items()


def test_the_groups_numbers_go_on_over_runs(table: Table) -> None:
    sink = table.sink()
    first = sink.append(table.rows(1), record(0), sink.read_state())
    assert sink.read_state() == first == table.sink().read_state()
    assert first.rows == 1
    second = sink.append(table.rows(2), record(1), first)
    third = table.write(3, 0, "q2")
    written = [state.record for state in (first, second, third)]
    assert [(one.run_id, one.sequence, one.based_on) for one in written if one] == [
        ("q", 1, 0),
        ("q", 2, 1),
        ("q2", 3, 2),
    ]
    group = table.sink("h")
    assert group.read_state() == SinkState()
    assert table.write(4, 0, group="h").sequence == 1
    assert table.values() == [1, 2, 3, 4]
    assert DeltaTable(str(table.path)).transaction_version("tubeclient:g") == 3
    assert sink.append(None, record(5), table.sink().read_state()).ends == {A: 28 * 6}


@pytest.mark.merge
def test_two_runs_on_the_same_version(table: Table) -> None:
    """Delta passes over the number that the other one has taken, and says nothing."""
    table.write(1, 0)
    late = table.sink()
    before = late.read_state()
    table.write(2, 0, "q2")
    with pytest.raises(OvertakenRun, match=r"another run of group g wrote commit 2 of run q2 .* at commit 2 of run q,"):
        late.append(table.rows(2), record(1), before)
    assert table.values() == [1, 2]


def test_overtaken_during_a_write(table: Table, tmp_path: Path) -> None:
    """A write fails and names the other run if that run commits during the write."""
    table.write(1, 0)
    late, gate = table.sink(), tmp_path / "gate"
    before = late.read_state()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            late.append(table.held_up(2, gate), record(1), before)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    wait_for(gate.with_suffix(".reached").exists, "the round to be under way", seconds=60)
    table.write(2, 0, "q2")
    gate.touch()
    thread.join(60)
    assert [type(error) for error in failures] == [OvertakenRun]
    assert "wrote commit 2 of run q2" in str(failures[0])
    assert table.values() == [1, 2]


def test_property_change_during_a_write(table: Table, tmp_path: Path) -> None:
    """The sink repeats a write if others change the table's properties during the write."""
    table.write(1, 0)
    sink, gate = table.sink(), tmp_path / "gate"
    before = sink.read_state()
    written: list[SinkState] = []
    thread = threading.Thread(target=lambda: written.append(sink.append(table.held_up(2, gate), record(1), before)))
    thread.start()
    wait_for(gate.with_suffix(".reached").exists, "the round to be under way", seconds=60)
    table.spark.sql(f"ALTER TABLE delta.`{table.path}` SET TBLPROPERTIES ('by' = 'others')")
    gate.touch()
    thread.join(60)
    assert [(one.record.sequence, one.record.based_on) for one in written if one.record] == [(2, 2)]
    assert table.values() == [1, 2]


def test_table_that_forgets_transactions(table: Table) -> None:
    """Delta lets the second one through. Whoever looks at the table then says so, the late run first."""
    table.write(1, 0)
    name = f"delta.`{table.path}`"
    forgets = "delta.setTransactionRetentionDuration"
    table.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{forgets}' = 'interval 0 seconds')").collect()
    late = table.sink()
    before = late.read_state()
    table.write(2, 0, "q2")
    # As when the transaction is older than the duration.
    table.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    with pytest.raises(
        UnknownRows, match=rf"version 4 of \S+ \(WRITE\) was written at the same time as another run .*{forgets}"
    ):
        late.append(table.rows(2), record(1), before)
    assert table.values() == [1, 2, 2]
    state = table.sink().read_state()
    with pytest.raises(UnknownRows, match=r"RESTORE TABLE \S+ TO VERSION AS OF 3, and start again\. Or") as caught:
        trusted(state, "/target", "g", None)
    assert "starting-offsets target" in str(caught.value)
    table.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 3").collect()
    held = trusted(table.sink().read_state(), "/target", "g", None)
    assert held.record is not None
    assert (held.record.run_id, dict(held.ends), table.values()) == ("q2", {A: 28}, [1, 2])


def restore(table: Table) -> None:
    table.spark.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF 1").collect()


@pytest.mark.parametrize("act", [restore, lambda table: DeltaTable(str(table.path)).restore(1)], ids=["spark", "rs"])
def test_numbers_after_a_restore(table: Table, act: Callable[[Table], object]) -> None:
    """After a RESTORE the rows end where that version says, and the sink reuses no number."""
    for number in range(3):
        table.write(number, number)
    act(table)
    held = table.sink().read_state()
    assert (dict(held.ends), held.sequence) == ({A: 28}, 3)
    assert (after := table.write(1, 1).record) is not None
    assert (after.sequence, after.undone) == (4, ((2, 3),))
    assert table.values() == [0, 1]


@pytest.mark.merge
def test_rows_that_spark_or_delta_rs_take_out_are_told(table: Table) -> None:
    for number in range(3):
        table.write(number, number)
    sink = table.sink()
    table.spark.sql(f"DELETE FROM delta.`{table.path}` WHERE value = 1").collect()
    assert sink.read_state().taken_out == TakenOut(4, "DELETE", everything=False)
    DeltaTable(str(table.path)).delete("value = 0")
    assert sink.read_state().taken_out == TakenOut(5, "DELETE", everything=False)
    table.rows(9).write.format("delta").mode("overwrite").save(str(table.path))
    assert sink.read_state().taken_out == TakenOut(6, "WRITE", everything=True)
    table.write(3, 3)
    DeltaTable(str(table.path)).delete()
    assert sink.read_state().taken_out == TakenOut(8, "DELETE", everything=True)


def test_numbers_go_on_where_the_history_is_cut(table: Table) -> None:
    for number in range(3):
        table.write(number, number)
    cut_history(table.path)
    held = table.sink().read_state()
    assert (held.record, held.sequence, held.is_whole) == (None, 3, False)
    # A group that never wrote there has no rows there.
    assert table.sink("never").read_state() == SinkState()
