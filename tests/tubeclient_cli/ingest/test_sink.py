"""The sink's table on Delta: who may write to it, and what it knows when others did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from spark_source.offsets.offsets import Offsets
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.sink import DeltaSink, OvertakenRun
from tubeclient_cli.ingest.sink_check import UnknownRows, trusted
from tubeclient_cli.ingest.sink_history import SinkState, TakenOut
from tubeclient_cli.ingest.sink_record import SinkRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A = PartitionKey(1, "clicks", 0)


class Table:
    """A table, the handles of several runs on it, and what was written."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = path

    def sink(self, group: str = "g") -> DeltaSink:
        return DeltaSink(self.spark, str(self.path), group)

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


def record(batch_id: int, query_id: str = "q", group: str = "g") -> SinkRecord:
    return SinkRecord(group, query_id, batch_id, Offsets({A: 28 * (batch_id + 1)}))


def test_the_groups_numbers_go_on_over_checkpoints_and_handles(table: Table) -> None:
    sink = table.sink()
    assert sink.look() == SinkState()
    sink.append(table.rows(1), record(0))
    assert sink.look() == table.sink().look()
    sink.append(table.rows(2), record(1))
    other = table.sink()
    written = [other.look().record, other.append(table.rows(3), record(0, "q2"))]
    assert [(one.batch_id, one.sequence, one.based_on) for one in written if one] == [(1, 2, 0), (0, 3, 1)]
    group = table.sink("h")
    assert group.look() == SinkState()
    assert group.append(table.rows(4), record(0, group="h")).sequence == 1
    assert table.values() == [1, 2, 3, 4]
    assert DeltaTable(str(table.path)).transaction_version("tubeclient:g") == 3


def test_of_two_runs_that_looked_at_the_same_table_one_is_let_through(table: Table) -> None:
    """Delta passes over the number that the other one has taken, and says nothing."""
    table.sink().append(table.rows(1), record(0))
    late, successor = table.sink(), table.sink()
    late.look()
    successor.look()
    successor.append(table.rows(2), record(0, "q2"))
    with pytest.raises(
        OvertakenRun, match=r"another run of group g wrote batch 0 of query q2 .* at batch 1 of query q"
    ):
        late.append(table.rows(2), record(1))
    assert table.values() == [1, 2]


@pytest.mark.parametrize("there", [True, False], ids=["table", "no table"])
def test_a_write_that_another_runs_commit_overtakes_fails_and_says_so(
    table: Table, tmp_path: Path, there: bool
) -> None:
    if there:
        table.sink().append(table.rows(1), record(0))
    late, gate = table.sink(), tmp_path / "gate"
    late.look()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            late.append(table.held_up(2, gate), record(1))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    wait_for(gate.with_suffix(".reached").exists, "the batch to be under way", seconds=60)
    successor = table.sink()
    successor.look()
    successor.append(table.rows(2), record(0, "q2"))
    gate.touch()
    thread.join(60)
    assert [type(error) for error in failures] == [OvertakenRun]
    assert "wrote batch 0 of query q2" in str(failures[0])
    assert table.values() == ([1, 2] if there else [2])


def test_a_write_that_others_change_of_the_tables_properties_comes_before_is_tried_again(
    table: Table, tmp_path: Path
) -> None:
    table.sink().append(table.rows(1), record(0))
    sink, gate = table.sink(), tmp_path / "gate"
    sink.look()
    written: list[SinkRecord] = []
    thread = threading.Thread(target=lambda: written.append(sink.append(table.held_up(2, gate), record(1))))
    thread.start()
    wait_for(gate.with_suffix(".reached").exists, "the batch to be under way", seconds=60)
    table.spark.sql(f"ALTER TABLE delta.`{table.path}` SET TBLPROPERTIES ('by' = 'others')")
    gate.touch()
    thread.join(60)
    assert [(one.sequence, one.based_on) for one in written] == [(2, 1)]
    assert table.values() == [1, 2]


def test_two_runs_that_write_where_the_table_forgets_transactions_are_told(table: Table) -> None:
    """Delta lets the second one through. Whoever looks at the table then says so, the late run first."""
    table.sink().append(table.rows(1), record(0))
    name = f"delta.`{table.path}`"
    forgets = "delta.setTransactionRetentionDuration"
    table.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{forgets}' = 'interval 0 seconds')").collect()
    late, successor = table.sink(), table.sink()
    late.look()
    successor.look()
    successor.append(table.rows(2), record(0, "q2"))
    # As when the transaction is older than the duration.
    table.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    with pytest.raises(UnknownRows, match=rf"version 3 of \S+ \(WRITE\) was written beside another run .*{forgets}"):
        late.append(table.rows(2), record(1))
    assert table.values() == [1, 2, 2]
    state = table.sink().look()
    with pytest.raises(UnknownRows, match=r"RESTORE TABLE \S+ TO VERSION AS OF 2\. Or") as caught:
        trusted(state, "/target", "g", None, goes_on=True)
    assert "--starting-offsets target" in str(caught.value)
    table.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 2").collect()
    held = trusted(table.sink().look(), "/target", "g", None, goes_on=False)
    assert held.record is not None
    assert (held.record.query_id, dict(held.ends), table.values()) == ("q2", {A: 28}, [1, 2])


def test_a_write_that_fails_by_itself_says_why(table: Table) -> None:
    from pyspark.errors import PySparkException

    sink = table.sink()
    sink.append(table.rows(1), record(0))
    with pytest.raises(PySparkException, match=r"(?i)schema"):
        sink.append(table.rows(1).withColumnRenamed("value", "other"), record(1))


def test_others_commits_between_two_batches_are_looked_at(table: Table) -> None:
    sink = table.sink()
    for number in range(3):
        sink.append(table.rows(number), record(number))
    DeltaTable(str(table.path)).optimize.compact()
    held = sink.look()
    assert (held.record and held.record.batch_id, held.sequence, held.taken_out) == (2, 3, None)
    assert sink.append(table.rows(3), record(3)).based_on == 3
    assert table.values() == [0, 1, 2, 3]


def restore(table: Table) -> None:
    table.spark.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF 0").collect()


@pytest.mark.parametrize("act", [restore, lambda table: DeltaTable(str(table.path)).restore(0)], ids=["spark", "rs"])
def test_restore_is_heeded_and_its_numbers_are_not_given_again(table: Table, act: Callable[[Table], object]) -> None:
    sink = table.sink()
    for number in range(3):
        sink.append(table.rows(number), record(number))
    act(table)
    for one in (sink, table.sink()):
        held = one.look()
        assert (held.record and held.record.batch_id, held.sequence) == (0, 3)
    assert sink.append(table.rows(1), record(1)).sequence == 4
    assert table.values() == [0, 1]


def test_rows_that_spark_or_delta_rs_take_out_are_told(table: Table) -> None:
    sink = table.sink()
    for number in range(3):
        sink.append(table.rows(number), record(number))
    table.spark.sql(f"DELETE FROM delta.`{table.path}` WHERE value = 1").collect()
    assert sink.look().taken_out == TakenOut(3, "DELETE", everything=False)
    DeltaTable(str(table.path)).delete("value = 0")
    assert sink.look().taken_out == TakenOut(4, "DELETE", everything=False)
    table.rows(9).write.format("delta").mode("overwrite").save(str(table.path))
    assert sink.look().taken_out == TakenOut(5, "WRITE", everything=True)
    sink.append(table.rows(3), record(3))
    DeltaTable(str(table.path)).delete()
    assert sink.look().taken_out == TakenOut(7, "DELETE", everything=True)


def test_numbers_go_on_where_the_history_is_cut(table: Table) -> None:
    sink = table.sink()
    for number in range(3):
        sink.append(table.rows(number), record(number))
    rs = DeltaTable(str(table.path))
    rs.optimize.compact()
    rs = DeltaTable(str(table.path))
    rs.create_checkpoint()
    for version in range(3):
        (table.path / "_delta_log" / f"{version:020}.json").unlink()
    held = table.sink().look()
    assert (held.record, held.sequence, held.is_whole) == (None, 3, False)


def test_a_history_that_is_cut_at_version_1_may_have_lost_the_groups_first_commit(table: Table) -> None:
    table.sink().append(table.rows(0), record(0))
    other = table.sink("h")
    other.look()
    other.append(table.rows(1), record(0, group="h"))
    DeltaTable(str(table.path)).create_checkpoint()
    (table.path / "_delta_log" / f"{0:020}.json").unlink()
    assert not table.sink().look().is_whole
    assert table.sink("h").look().is_whole
    # The table keeps who has written, and a group that never did has no rows there.
    assert table.sink("never").look() == SinkState()
