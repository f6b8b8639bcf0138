"""The target alone says where the group's rows end; where its history no longer does, the user says it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from spark_source.offsets.offsets import Offsets
from tests.tubeclient_ingest.bench import KEYS, Bench
from tests.tubeclient_ingest.lake import KEY, Killed, cut_history, each_commit
from tests.tubeclient_ingest.test_streams import Shop
from tests.tubeclient_ingest.test_upserts import Change, Keyed
from tubeclient_ingest import run
from tubeclient_ingest.commits.beginning import TableChanged, UnknownRows
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.commits.stream_ends import StreamsLeftBehind
from tubeclient_ingest.rounds import group_table
from tubeclient_ingest.run import Begins, Event
from tubeclient_ingest.tables.data_files import DataFile
from tubeclient_ingest.tables.log_table import LogTable
from tubeclient_ingest.tables.table_detail import GroupProperty

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FORGETS = "delta.setTransactionRetentionDuration"


@pytest.fixture
def shop(tmp_path: Path, delta_spark: SparkSession) -> Iterator[Shop]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("shop", 2, 1)]) as tube:
        yield Shop(tube, delta_spark, tmp_path)


@pytest.mark.merge
def test_recreated_target_gets_all_rows(bench: Bench) -> None:
    """A recreated target gets all rows, whatever the offsets table says."""
    bench.send(60)
    key = GroupKey("clicks_etl", ["clicks"])
    run = OffsetsTable(str(bench.folder / "offsets")).open_run(key, 2)  # of a target that was removed
    run.record([PartitionProgress(key, 28 * 30) for key in KEYS])
    bench.send(10)
    assert bench.rows() == 70
    assert bench.said[-1].startswith("begins at earliest in clicks. The offsets table is ahead of the target")
    assert bench.repeated_or_missing() == {}
    shutil.rmtree(bench.settings.target)
    bench.send(10)
    assert bench.rows(starting_offsets="group") == 10  # as the user says


def test_reset_to_the_offsets_table(bench: Bench) -> None:
    """A reset to group continues a topic where the offsets table is, even if another job moved it."""
    bench.send(20)
    bench.run()
    bench.send(20)
    bench.run(target=str(bench.folder / "elsewhere"), starting_offsets="group")  # which moves the offsets table
    bench.job(starting_offsets="group").reset_offsets(["clicks"])
    bench.send(20)
    assert bench.rows() == 20
    assert set(bench.repeated_or_missing()) == {*range(20, 40)}


@pytest.mark.merge
def test_restore_before_a_history_cut(bench: Bench) -> None:
    """The job asks where to begin if a RESTORE took rows out and then the history was cut."""
    bench.send(20)
    bench.run(max_offsets_per_trigger=10)
    bench.restore(2)
    cut_history(Path(bench.settings.target))
    for chosen in (None, "group"):
        with pytest.raises(UnknownRows, match="its history does not say where they end"):
            bench.run(starting_offsets=chosen)
    ends = {"1:clicks:0": 5 * 28, "1:clicks:10000": 5 * 28, "default": "earliest"}
    bench.job(starting_offsets=str(ends).replace("'", '"')).reset_offsets(["clicks"])
    assert bench.rows() == 10
    assert bench.repeated_or_missing() == {}


def test_start_at_group_after_a_table_change(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start at group holds if the table changes before the run's first commit."""
    bench.send(20)
    bench.run()
    bench.send(20)
    commit, is_first = LogTable.commit, iter([True])

    def put_back(table: LogTable, files: Sequence[DataFile], record: SinkRecord | None = None) -> None:
        if next(is_first, False):
            raise TableChanged
        commit(table, files, record)

    monkeypatch.setattr(LogTable, "commit", put_back)
    assert bench.rows(target=str(bench.folder / "elsewhere"), starting_offsets="group") == 20


def forget(spark: SparkSession, target: Path) -> None:
    """Have a table forget Spark's transactions, and that it does so."""
    where = f"delta.`{target}`"
    spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('{FORGETS}' = 'interval 0 hours')").collect()
    cut_history(target)
    spark.sql(f"ALTER TABLE {where} UNSET TBLPROPERTIES ('{FORGETS}')").collect()


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_table_that_forgot_a_groups_commits(bench: Bench, writer: str) -> None:
    """A table that forgot a group's commits still says that it has the group's rows."""
    bench.settings = replace(bench.settings, offsets_table=None)
    bench.send(20)
    bench.run(consumer_group="first", starting_offsets="latest")
    bench.run(writer=writer)
    named = DeltaTable(bench.settings.target).metadata().configuration
    wanted = [GroupProperty().properties(name).items() for name in ("first", "clicks_etl")]
    assert wanted[0] | wanted[1] <= named.items()
    forget(bench.spark, Path(bench.settings.target))
    bench.send(4)
    with pytest.raises(UnknownRows, match="its history does not say where they end"):
        bench.run(writer=writer)
    assert bench.rows(consumer_group="others", writer=writer) == 24
    ends = {"1:clicks:0": 10 * 28, "1:clicks:10000": 10 * 28, "default": "earliest"}
    bench.job(starting_offsets=str(ends).replace("'", '"')).reset_offsets(["clicks"])
    assert bench.rows() == 4


def test_streams_table_that_forgot_its_commits(shop: Shop) -> None:
    """A stream stays behind if its table forgot the group's commits, until the user decides."""
    shop.send("orders", "views")
    shop.run(writer="spark")
    forget(shop.spark, shop.lake / "orders")
    shop.send("orders", "views")
    with pytest.raises(StreamsLeftBehind, match=r"orders: .*its history does not say where they end"):
        shop.run()
    with pytest.raises(StreamsLeftBehind, match="target, once, with --stream orders and no other"):
        shop.run(starting_offsets="target")
    shop.run(starting_offsets="target", streams=("orders",))
    shop.run()
    assert shop.numbers("orders") == shop.numbers("views") == [*range(20)]


def test_equal_number_after_a_restore(shop: Shop) -> None:
    """A stream stays behind if its cut table has the counts table's number but lacks rows."""
    shop.send("orders", "views")
    shop.run()
    shop.send("orders", "views")
    shop.run()
    orders = shop.lake / "orders"
    shop.spark.sql(f"RESTORE TABLE delta.`{orders}` TO VERSION AS OF 1").collect()
    cut_history(orders)
    shop.send("views")
    with pytest.raises(StreamsLeftBehind, match=r"orders: .*its history does not say where they end"):
        shop.run()
    assert shop.numbers("views") == [*range(30)]
    # The user says that the table has what the counts table says, and that is what counts from there on.
    shop.send("orders")
    shop.run(starting_offsets="target", streams=("orders",))
    shop.send("orders")
    shop.run()
    assert shop.numbers("orders") == [*range(10), *range(20, 40)]


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_a_copy_by_create_table_like_and_insert_asks(bench: Bench, writer: str) -> None:
    """It has a history of its own, and the properties of the table whose rows it has."""
    bench.settings = replace(bench.settings, writer=writer, offsets_table=None)
    bench.send(20)
    bench.run()
    target, copy = Path(bench.settings.target), bench.folder / "copy"
    bench.spark.sql(f"CREATE TABLE delta.`{copy}` LIKE delta.`{target}`")
    bench.spark.sql(f"INSERT INTO delta.`{copy}` SELECT * FROM delta.`{target}`")
    shutil.rmtree(target)
    copy.rename(target)
    bench.send(4)
    with pytest.raises(UnknownRows, match="is a copy of another table, or others wrote its first rows"):
        bench.run()
    bench.job(starting_offsets="latest").reset_offsets(["clicks"])
    bench.send(4)
    assert bench.rows() == 4
    bench.restore(1)  # the copy as it was made
    with pytest.raises(UnknownRows, match="is a copy of another table, or others wrote its first rows"):
        bench.run()
    # An empty one is a new table.
    bench.spark.sql(f"CREATE TABLE delta.`{copy}` LIKE delta.`{target}`")
    shutil.rmtree(target)
    copy.rename(target)
    assert bench.rows() == 28
    assert not bench.repeated_or_missing()


def test_uncounted_table_without_a_history(shop: Shop) -> None:
    """A stream stays behind if its table is ahead of the counts table and has no history."""
    shop.send("orders", "views")
    shop.run()
    shop.send("orders", "views")

    def die(table: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        if record is not None and "_counts" in table.where and "orders" in written:
            raise Killed
        written.append("orders" if "orders" in table.where and record is not None else "")
        commit()

    written: list[str] = []

    with each_commit(die), pytest.raises(Killed):
        shop.run()
    orders = shop.lake / "orders"
    cut_history(orders)
    for chosen in (None, "target"):
        with pytest.raises(StreamsLeftBehind, match=r"orders: .* history does not say where"):
            shop.run(starting_offsets=chosen, streams=("orders",))
    shutil.rmtree(orders)
    shop.run()
    assert shop.numbers("orders") == shop.numbers("views") == [*range(20)]


@pytest.mark.parametrize("chosen", ["target", "group"])
def test_counts_table_that_forgot(shop: Shop, chosen: str) -> None:
    """The job trusts tables that say where their rows end if the counts table lost its history."""
    shop.settings = replace(shop.settings, offsets_table=str(shop.lake.parent / "offsets"))
    for _ in range(2):
        shop.send("orders")
        shop.tube.load("shop", [NewMessage(0, b"of no stream")])
        shop.run()
    forget(shop.spark, shop.lake / "_counts")
    if chosen == "group":
        shop.job(starting_offsets=chosen).reset_offsets(["shop"])
    shop.send("orders", "views")
    shop.run(starting_offsets="target" if chosen == "target" else None)
    assert [shop.numbers(one) for one in ("orders", "views")] == [[*range(30)], [*range(10)]]
    assert DeltaTable(str(shop.lake / "_rest")).count() == 2


def test_lake_without_any_history(shop: Shop) -> None:
    """A lake without any history resumes where a reset to group says that all rows end."""
    shop.settings = replace(shop.settings, offsets_table=str(shop.lake.parent / "offsets"))
    shop.send("orders", "views")
    shop.run()
    for name in ("_counts", "_rest", "orders", "views"):
        shop.spark.sql(f"ALTER TABLE delta.`{shop.lake}/{name}` SET TBLPROPERTIES ('mine' = 'yes')").collect()
        cut_history(shop.lake / name, to_others=False)
    with pytest.raises(UnknownRows, match=r"_counts.* may have rows .* Set .* target, once: .* or to group"):
        shop.run()
    with pytest.raises(
        UnknownRows, match=r"_rest.* does not say where they end: .* With target they would be written again"
    ):
        shop.run(starting_offsets="target")
    shop.job(starting_offsets="group").reset_offsets(["shop"])
    shop.send("orders", "clicks")
    shop.run()
    shop.send("views")
    shop.run()
    assert [shop.numbers(one) for one in ("orders", "views", "clicks")] == [[*range(20)], [*range(20)], [*range(10)]]


@pytest.mark.parametrize(("writer", "is_rewritten"), [("tasks", False), ("tasks", True), ("spark", True)])
def test_clone_with_a_cut_history(bench: Bench, writer: str, is_rewritten: bool) -> None:
    """The job does not take a clone for a new table if its history no longer calls it a clone."""
    clone, own = bench.folder / "clone", {"offsets_table": None, "writer": writer}
    bench.send(10)
    bench.run(**own)
    bench.spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{bench.settings.target}`").collect()
    if is_rewritten:
        bench.spark.sql(f"UPDATE delta.`{clone}` SET value = value").collect()
    bench.spark.sql(f"ALTER TABLE delta.`{clone}` SET TBLPROPERTIES ('mine' = 'yes')").collect()
    cut_history(clone, to_others=False)
    with pytest.raises(UnknownRows, match="its history does not say where they end"):
        bench.run(**own, target=str(clone))


def test_numbers_after_the_target_forgot(bench: Bench) -> None:
    """Commit numbers go on, and late changes bring no row back, if the target forgot its numbers."""
    lake = Keyed(bench.spark, bench.folder, [
        Change(1, 5, 0), Change(2, 5, 0), Change(3, 5, 0, is_bad=True), Change(1, 7, 0, is_delete=True),
        Change(4, 5, 0, is_bad=True),
        Change(1, 6, 0), Change(5, 5, 0, is_bad=True),
    ])  # fmt: skip
    lake.run(3, 1, 1)
    assert lake.state() == {2: 1}
    before = lake.rows_of_bad()
    assert len(before) == 2
    where = f"delta.`{lake.target}`"
    bench.spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('{FORGETS}' = 'interval 0 hours')").collect()
    cut_history(lake.target)
    started = lake.start()
    state = started.writer.sink.read_state()
    assert (state.record, state.sequence, state.is_whole) == (None, 3, False)
    started.writer.write(lake.records(5, 7), SinkRecord(lake.group, started.run_id, Offsets({KEY: 7 * 28})), state)
    assert lake.state() == {2: 1}  # the late change brings no row back
    lake.run(0)  # which would remove rows of bad records whose number another run took
    assert [one for one in lake.rows_of_bad() if one in before] == before


def test_arrival_order_after_the_target_forgot(bench: Bench) -> None:
    """Records that arrive after the target forgot its numbers are newer than its rows."""
    keyed = {"format": "csv", "schema": "id INT, v INT", "key": ("id",), "order_by": "arrival"}
    for value in range(3):
        bench.tube.load("clicks", [NewMessage(0, f"1,{value}".encode())])
        bench.run(**keyed)
    forget(bench.spark, Path(bench.settings.target))
    bench.job(**keyed, starting_offsets=f'{{"1:clicks:0": {3 * 28}, "default": "earliest"}}').reset_offsets(["clicks"])
    bench.tube.load("clicks", [NewMessage(0, b"1,9")])
    bench.run(**keyed)
    assert [(row.id, row.v) for row in bench.spark.table(f"delta.`{bench.settings.target}`").collect()] == [(1, 9)]


@pytest.mark.parametrize("is_old", [False, True])
def test_idle_table_repeats_its_end(bench: Bench, monkeypatch: pytest.MonkeyPatch, is_old: bool) -> None:
    """A run without new records commits again where rows end once the last commit is old."""
    bench.send(4)
    bench.run()
    before = DeltaTable(bench.settings.target).version()
    if is_old:
        monkeypatch.setattr(group_table, "_SAY_AGAIN", timedelta(seconds=-1))
    assert bench.rows() == 0
    assert DeltaTable(bench.settings.target).version() == before + is_old
    monkeypatch.undo()
    assert bench.rows() == 0


def test_a_long_run_begins_anew_each_day(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it says again where the rows of tables end that rest."""
    monkeypatch.setattr(run, "_ANEW_SECONDS", 1.0)
    job = bench.job(trigger="0s")
    begins: list[str] = []

    def see(event: Event) -> None:
        if isinstance(event, Begins):
            begins.append(event.text)
            if len(begins) == 3:
                job._stop.set()
            bench.send(4)

    job.run(see)
    assert len(begins) == 3
    bench.run()
    assert bench.repeated_or_missing() == {}


def test_idle_streams_repeat_their_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group without new records commits again where rows end once the last commits are old."""
    shop.send("orders", "views")
    shop.run()
    tables = [shop.lake / name for name in ("orders", "views", "_counts")]
    before = [DeltaTable(str(one)).version() for one in tables]
    shop.run()
    assert [DeltaTable(str(one)).version() for one in tables] == before
    monkeypatch.setattr(group_table, "_SAY_AGAIN", timedelta(seconds=-1))
    shop.run()
    # The counts table also says which commits the others have then.
    more = (1, 1, 2)
    assert [DeltaTable(str(one)).version() for one in tables] == [sum(one) for one in zip(before, more, strict=True)]
    monkeypatch.undo()
    shop.send("orders", "views")
    shop.run()
    shop.check(("orders", "views"))
