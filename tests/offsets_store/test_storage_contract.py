"""What a storage of the offsets table has to do, tried on delta-rs and on the one in memory of the simulation; and the
table that delta-rs makes, for other engines."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from offsets_store import GroupKey, OffsetsTable, PartitionProgress, PartRead, SchemaMismatch, SupersededRun
from offsets_store.delta_rs import DeltaRsStorage
from offsets_store.run import Conflict, Storage
from offsets_store.schema import COLUMNS, TABLE_PROPERTIES
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Between, Clock, at
from tests.offsets_store.memory import Log, MemoryStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOTH_TOPICS = GroupKey("clicks_etl", ["clicks", "views"])
Open = Callable[[], OffsetsTable]


class Place:
    """Where one table is, and how to open it anew, as another process would."""

    def __init__(self, new_storage: Callable[[], Storage], clock: Clock) -> None:
        self.new_storage = new_storage
        self.clock = clock

    def open(self, storage: Storage | None = None) -> OffsetsTable:
        return OffsetsTable("", clock_ms=self.clock, client_version="9.9", storage=storage or self.new_storage())


@pytest.fixture(params=["delta-rs", "memory"])
def place(request: pytest.FixtureRequest, uri: str, clock: Clock) -> Place:
    if request.param == "delta-rs":
        return Place(lambda: DeltaRsStorage(uri, {}), clock)
    log = Log()
    return Place(lambda: MemoryStorage(log), clock)


def test_what_is_recorded_is_read_back(place: Place, clock: Clock) -> None:
    run = place.open().open_run(KEY, 2)
    clock.now += 5_001
    parts = (PartRead(1, 0, 1400), PartRead(0, 1400, 2800))
    progress = [
        PartitionProgress(SECOND, 28, None, 1),
        PartitionProgress(FIRST, 2800, 5600, None, 0, parts, "modulo; backlog taken over"),
    ]
    assert run.record(progress) is True
    found = place.open().latest(KEY)
    assert found is not None
    assert found.partitions == (progress[1], progress[0])
    assert (found.source_count, found.sequence, found.run_epoch, found.client_version) == (2, 1, run.epoch, "9.9")
    assert found.updated_at == datetime.fromtimestamp(clock.now / 1000, UTC)


def test_the_last_row_of_a_group_can_go(place: Place) -> None:
    run = place.open().open_run(KEY, 1)
    run.keep_initial("latest", {FIRST: 28})
    run.clear_initial()
    assert run.record([]) is True
    assert place.new_storage().rows(KEY.consumer_group) == []
    assert run.record(at({FIRST: 56})) is True
    assert [row.sequence for row in place.new_storage().rows(KEY.consumer_group)] == [3]


@pytest.mark.parametrize("newer", [KEY, BOTH_TOPICS], ids=["same topics", "more topics"])
@pytest.mark.parametrize("empty", [False, True], ids=["some", "none yet"])
def test_a_newer_run_between_look_and_write_is_noticed(
    place: Place, clock: Clock, newer: GroupKey, empty: bool
) -> None:
    storage = Between(place.new_storage())
    old = place.open(storage).open_run(KEY, 1)
    if not empty:
        old.record(at({FIRST: 28}))
    clock.now += 1
    run = place.open().open_run(newer, 1, force=True)
    storage.act = lambda: run.record(at({FIRST: 84}))
    with pytest.raises(SupersededRun):
        old.record(at({FIRST: 56}))
    assert place.open().positions("clicks_etl", ["clicks"]) == {FIRST: 84}
    assert run.record(at({FIRST: 112})) is True


def test_other_group_commits_before_the_write(place: Place) -> None:
    """A record succeeds if another group commits between its read and its write."""
    storage = Between(place.new_storage())
    run = place.open(storage).open_run(KEY, 1)
    other = place.open().open_run(GroupKey("other", ["clicks"]), 1)
    other.record(at({FIRST: 28}))
    run.record(at({FIRST: 28}))
    tries = []
    storage.act = lambda: tries.append(other.record(at({FIRST: 56})))
    assert run.record(at({FIRST: 56})) is True
    assert tries == [True]
    assert [row.sequence for row in place.new_storage().rows(KEY.consumer_group)] == [2]


def test_group_names_are_data_not_syntax(open_table: Open) -> None:
    open_table().open_run(KEY, 1).record(at({FIRST: 28}))
    odd = GroupKey('it\'s"a"/b\\c`%41`ü', ["clicks"])
    run = open_table().open_run(odd, 1)
    run.record(at({FIRST: 280}))
    run.record(at({FIRST: 560}))
    assert open_table().positions(odd.consumer_group, ["clicks"]) == {FIRST: 560}
    assert open_table().positions("clicks_etl", ["clicks"]) == {FIRST: 28}


def test_sequence_after_deleted_rows(open_table: Open, uri: str) -> None:
    """The table does not reuse a sequence after its rows are deleted."""
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    run.record(at({FIRST: 56}))
    DeltaTable(uri).delete("consumerGroup = 'clicks_etl'")
    assert open_table().latest(KEY) is None
    open_table().open_run(BOTH_TOPICS, 1).record(at({FIRST: 84}))
    assert [row.sequence for row in DeltaRsStorage(uri, {}).rows(KEY.consumer_group)] == [3]


def test_replaced_table_of_the_same_version(uri: str, clock: Clock, tmp_path: Path) -> None:
    """An open table reads the new rows if another table of the same version replaces it."""
    other = str(tmp_path / "other")
    for where, offset in ((uri, 28), (other, 280)):
        OffsetsTable(where, clock_ms=clock).open_run(KEY, 1).record(at({FIRST: offset}))
    table = OffsetsTable(uri, clock_ms=clock)
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 28}
    shutil.rmtree(uri)
    shutil.move(other, uri)
    assert DeltaTable(uri).version() == 1
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 280}


def test_outdated_rows_conflict(uri: str, open_table: Open) -> None:
    """A write that is based on outdated rows conflicts each time it is tried."""
    open_table().open_run(KEY, 1).record(at({FIRST: 28}))
    storage = DeltaRsStorage(uri, {})
    rows = storage.rows(KEY.consumer_group)
    open_table().open_run(KEY, 1, force=True).record(at({FIRST: 280}))
    for _ in range(2):
        with pytest.raises(Conflict):
            storage.replace(KEY, rows, 2)
    assert open_table().positions("clicks_etl", ["clicks"]) == {FIRST: 280}


def test_rows_of_a_newer_version_are_refused_by_name(open_table: Open, uri: str) -> None:
    """Whoever has upgraded one of two jobs that share a table reads of it; other groups are not concerned."""
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28, SECOND: 28}))
    other = open_table().open_run(GroupKey("other_etl", ["clicks"]), 1)
    found = DeltaTable(uri).to_pyarrow_table(filters=[("consumerGroup", "=", "clicks_etl")])
    at_version = found.column_names.index("rowVersion")
    newer = found.set_column(at_version, found.schema.field("rowVersion"), pa.array([1, 2], pa.int32()))
    write_deltalake(uri, newer, mode="overwrite", predicate="consumerGroup = 'clicks_etl'")
    text = r"group clicks_etl have version 2: release 9\.9 of pyspark-tubeclient wrote them, .* version 1; upgrade"
    for use in (lambda: run.record(at({FIRST: 56})), lambda: open_table().positions("clicks_etl", ["clicks"])):
        with pytest.raises(SchemaMismatch, match=text):
            use()
    other.record(at({SECOND: 28}))
    assert open_table().positions("other_etl", ["clicks"]) == {SECOND: 28}


def test_new_table_format(open_table: Open, uri: str) -> None:
    """A new table has the declared columns and the Delta protocol that everybody can read."""
    open_table().open_run(KEY, 1).record(at({FIRST: 28}))
    found = DeltaTable(uri)
    assert (found.protocol().min_reader_version, found.protocol().min_writer_version) == (1, 2)
    assert found.metadata().partition_columns == ["consumerGroup"]
    assert TABLE_PROPERTIES.items() <= found.metadata().configuration.items()
    assert [(f.name, f.nullable) for f in found.schema().fields] == [(c.name, c.nullable) for c in COLUMNS]


@pytest.mark.spark
def test_spark_reads_the_rows_and_may_write(delta_spark: SparkSession, open_table: Open, uri: str) -> None:
    """What a person may do by hand in Spark: move a group. The run goes on from there."""
    run = open_table().open_run(KEY, 2)
    run.record([PartitionProgress(FIRST, 56, 336, 0), PartitionProgress(SECOND, 0, None, 1)])
    rows = delta_spark.read.format("delta").load(uri).orderBy("partition").collect()
    assert [(r.consumerGroup, r.partition, r.nextOffset, r.endOffset, r.lag, r.nodeId) for r in rows] == [
        ("clicks_etl", 0, 56, 336, 10, 0),
        ("clicks_etl", 10_000, 0, None, None, 1),
    ]
    delta_spark.sql(f"UPDATE delta.`{uri}` SET nextOffset = 5600 WHERE partition = 0")
    assert open_table().positions("clicks_etl", ["clicks"]) == {FIRST: 5600, SECOND: 0}
    assert run.record(at({FIRST: 8400, SECOND: 28})) is True
    seen = delta_spark.read.format("delta").load(uri).orderBy("nextOffset")
    assert [r.nextOffset for r in seen.collect()] == [28, 8400]
