"""What every storage of the offsets table has to do, tried on each: delta-rs, delta-spark by path and by name, and the
one in memory that the simulation uses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from offsets_store import GroupKey, OffsetsTable, PartitionProgress, PartRead, SchemaMismatch, SupersededRun
from offsets_store.delta_rs import DeltaRsStorage
from offsets_store.delta_spark import DeltaSparkStorage
from offsets_store.schema import COLUMNS, TABLE_PROPERTIES
from offsets_store.storage import Storage
from spark_source.session_confs import session_confs
from tests.offsets_store.between import Between
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tests.offsets_store.memory import Log, MemoryStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOTH_TOPICS = GroupKey("clicks_etl", ["clicks", "views"])

_numbers = itertools.count()


class Place:
    """Where one table is, and how to open it anew, as another process would."""

    def __init__(self, folder: str, new_storage: Callable[[], Storage], clock: Clock) -> None:
        self.folder = folder
        self.new_storage = new_storage
        self.clock = clock

    def open(self, storage: Storage | None = None) -> OffsetsTable:
        storage = storage or self.new_storage()
        return OffsetsTable(self.folder, clock_ms=self.clock, client_version="9.9", storage=storage)


SPARK_BY_PATH, SPARK_BY_NAME = (pytest.param(kind, marks=pytest.mark.spark) for kind in ("path", "name"))
by_name_too = pytest.mark.parametrize("place", ["delta-rs", SPARK_BY_PATH, SPARK_BY_NAME], indirect=True)


in_delta = pytest.mark.parametrize("place", ["delta-rs", SPARK_BY_PATH], indirect=True)
"""For tests that look at the table's files."""


@pytest.fixture(params=["delta-rs", SPARK_BY_PATH, "memory"])
def place(request: pytest.FixtureRequest, uri: str, clock: Clock) -> Iterator[Place]:
    if request.param == "delta-rs":
        yield Place(uri, lambda: DeltaRsStorage(uri, {}), clock)
        return
    if request.param == "memory":
        log = Log()
        yield Place("memory", lambda: MemoryStorage(log), clock)
        return
    spark: SparkSession = request.getfixturevalue("delta_spark")
    if request.param == "path":
        yield Place(uri, lambda: DeltaSparkStorage(spark, uri), clock)
        return
    name = f"offsets{next(_numbers)}"
    folder = spark.conf.get("spark.sql.warehouse.dir")
    yield Place(f"{folder}/{name}", lambda: DeltaSparkStorage(spark, f"spark_catalog.default.{name}"), clock)
    spark.sql(f"DROP TABLE IF EXISTS {name}")


@by_name_too
def test_what_is_recorded_is_read_back(place: Place, clock: Clock) -> None:
    table = place.open()
    assert (table.latest(KEY), table.positions("clicks_etl", ["clicks"])) == (None, {})
    run = table.open_run(KEY, 2)
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
    version = DeltaTable(place.folder).version()
    assert run.record(progress) is False
    assert DeltaTable(place.folder).version() == version
    assert run.record(at({FIRST: 5600})) is True
    assert DeltaTable(place.folder).version() == version + 1  # in one commit
    assert place.open().positions("clicks_etl", ["clicks"]) == {FIRST: 5600}


@by_name_too
def test_the_table_it_makes_is_the_one_that_everybody_reads(place: Place) -> None:
    place.open().open_run(KEY, 1).record(at({FIRST: 28}))
    found = DeltaTable(place.folder)
    assert (found.protocol().min_reader_version, found.protocol().min_writer_version) == (1, 2)
    assert found.metadata().partition_columns == ["consumerGroup"]
    assert TABLE_PROPERTIES.items() <= found.metadata().configuration.items()
    assert [(f.name, f.nullable) for f in found.schema().fields] == [(c.name, c.nullable) for c in COLUMNS]


@pytest.mark.spark
def test_the_table_has_none_of_the_properties_that_the_session_gives_to_new_tables(
    delta_spark: SparkSession, uri: str, clock: Clock
) -> None:
    defaults = {"appendOnly": "true", "columnMapping.mode": "name"}
    confs = {f"spark.databricks.delta.properties.defaults.{name}": value for name, value in defaults.items()}
    with session_confs(delta_spark, confs):
        run = Place(uri, lambda: DeltaSparkStorage(delta_spark, uri), clock).open().open_run(KEY, 1)
        assert [run.record(at({FIRST: offset})) for offset in (28, 56)] == [True, True]
    found = DeltaTable(uri)
    assert (found.protocol().min_reader_version, found.metadata().configuration) == (1, TABLE_PROPERTIES)


def test_the_last_row_of_a_group_can_go(place: Place) -> None:
    run = place.open().open_run(KEY, 1)
    run.keep_initial("latest", {FIRST: 28})
    assert run.initial_offsets("latest") == {FIRST: 28}
    run.clear_initial()
    assert run.record([]) is True
    assert place.new_storage().rows(KEY.consumer_group) == []
    assert run.record(at({FIRST: 56})) is True
    assert [row.sequence for row in place.new_storage().rows(KEY.consumer_group)] == [3]


def test_group_names_are_data_not_syntax(place: Place) -> None:
    place.open().open_run(KEY, 1).record(at({FIRST: 28}))
    odd = GroupKey('it\'s"a"/b\\c`%41`ü', ["clicks"])
    run = place.open().open_run(odd, 1)
    run.record(at({FIRST: 280}))
    run.record(at({FIRST: 560}))
    assert place.open().positions(odd.consumer_group, ["clicks"]) == {FIRST: 560}
    assert place.open().positions("clicks_etl", ["clicks"]) == {FIRST: 28}


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


def test_another_group_between_look_and_write_does_not_matter(place: Place) -> None:
    storage = Between(place.new_storage())
    run = place.open(storage).open_run(KEY, 1)
    other = place.open().open_run(GroupKey("other", ["clicks"]), 1)
    other.record(at({FIRST: 28}))
    run.record(at({FIRST: 28}))
    tries = []
    storage.act = lambda: tries.append(other.record(at({FIRST: 56})))
    assert run.record(at({FIRST: 56})) is True
    assert tries == [True]
    found = place.open().latest(KEY)
    assert found is not None
    assert found.sequence == 2


@by_name_too
def test_a_sequence_is_not_used_again_after_rows_were_deleted(place: Place) -> None:
    run = place.open().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    run.record(at({FIRST: 56}))
    DeltaTable(place.folder).delete("consumerGroup = 'clicks_etl'")
    assert place.open().latest(KEY) is None
    place.open().open_run(BOTH_TOPICS, 1).record(at({FIRST: 84}))
    assert [row.sequence for row in place.new_storage().rows(KEY.consumer_group)] == [3]


@in_delta
def test_another_table_is_refused(place: Place) -> None:
    place.open().open_run(KEY, 1).record(at({FIRST: 28}))
    other = pa.table({"consumerGroup": ["x"], "strange": [1]})
    write_deltalake(place.folder, other, mode="overwrite", schema_mode="overwrite", partition_by=["consumerGroup"])
    with pytest.raises(
        SchemaMismatch, match=r"not an offsets table of this release\. .* lacks topicSet, .*; it has strange besides$"
    ):
        place.open().latest(KEY)


@in_delta
def test_rows_of_a_newer_version_are_refused_by_name(place: Place) -> None:
    """Whoever has upgraded one of two jobs that share a table reads of it; other groups are not concerned."""
    run = place.open().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    other = place.open().open_run(GroupKey("other_etl", ["clicks"]), 1)
    found = DeltaTable(place.folder).to_pyarrow_table(filters=[("consumerGroup", "=", "clicks_etl")])
    at_version = found.column_names.index("rowVersion")
    newer = found.set_column(at_version, found.schema.field("rowVersion"), pa.array([2] * len(found), pa.int32()))
    write_deltalake(place.folder, newer, mode="overwrite", predicate="consumerGroup = 'clicks_etl'")
    text = r"group clicks_etl have version 2: release 9\.9 of pyspark-tubeclient wrote them, .* version 1; upgrade"
    for use in (
        lambda: run.record(at({FIRST: 56})),
        lambda: place.open().open_run(KEY, 1, force=True),
        lambda: place.open().positions("clicks_etl", ["clicks"]),
    ):
        with pytest.raises(SchemaMismatch, match=text):
            use()
    other.record(at({SECOND: 28}))
    assert place.open().positions("other_etl", ["clicks"]) == {SECOND: 28}
