"""delta-spark and delta-rs share one offsets table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from offsets_store import GroupKey, OffsetsRun, OffsetsTable, PartitionProgress, SupersededRun
from offsets_store.delta_rs import DeltaRsStorage
from offsets_store.delta_spark import DeltaSparkStorage
from offsets_store.schema import COLUMNS
from tests.offsets_store.between import Between
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tubeclient.keys import PartitionKey

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def test_spark_reads_the_rows_and_the_history_and_may_write(
    delta_spark: SparkSession, table: OffsetsTable, uri: str, clock: Clock
) -> None:
    run = table.open_run(KEY, 2)
    run.record(at({FIRST: 28}))
    run.record([PartitionProgress(FIRST, 56, 336, 0), PartitionProgress(SECOND, 0, None, 1)])
    odd = GroupKey("it's/a;b", ["clicks"])
    table.open_run(odd, 1).record(at({FIRST: 280}))

    frame = delta_spark.read.format("delta").load(uri)
    assert {(f.name, f.dataType.simpleString()) for f in frame.schema} == {(c.name, c.type) for c in COLUMNS}
    rows = frame.orderBy("consumerGroup", "partitionId").collect()
    assert [(r.consumerGroup, r.partitionId, r.nextOffset, r.endOffset, r.lag, r.nodeId) for r in rows] == [
        ("clicks_etl", 0, 56, 336, 10, 0),
        ("clicks_etl", 10_000, 0, None, None, 1),
        ("it's/a;b", 0, 280, 560, 10, 0),
    ]
    # The session's zone is UTC, and collect() answers in this process's zone.
    assert {r.updatedAt.astimezone(UTC) for r in rows} == {datetime.fromtimestamp(clock.now / 1000, UTC)}
    first = delta_spark.read.format("delta").option("versionAsOf", 1).load(uri)
    assert [r.nextOffset for r in first.collect()] == [28]

    # What a person may do by hand in Spark: move a group. The run goes on from there.
    delta_spark.sql(
        f"UPDATE delta.`{uri}` SET nextOffset = 5600 WHERE consumerGroup = 'clicks_etl' AND partitionId = 0"
    )
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 5600, SECOND: 0}
    assert run.record(at({FIRST: 8400, SECOND: 28, PartitionKey(2, "clicks", 0): 28})) is True
    seen = delta_spark.read.format("delta").load(uri).where("consumerGroup = 'clicks_etl'").orderBy("nextOffset")
    assert [r.nextOffset for r in seen.collect()] == [28, 28, 8400]


@pytest.fixture
def by_spark(delta_spark: SparkSession, uri: str, clock: Clock) -> OffsetsTable:
    """The table that `table` writes with delta-rs, through delta-spark."""
    return OffsetsTable(uri, clock_ms=clock, client_version="8.8", storage=DeltaSparkStorage(delta_spark, uri))


@pytest.mark.parametrize("first", ["delta-rs", "delta-spark"])
def test_both_write_one_table_in_turn(
    table: OffsetsTable, by_spark: OffsetsTable, uri: str, clock: Clock, first: str
) -> None:
    both = GroupKey("clicks_etl", ["clicks", "views"])
    other = GroupKey("other", ["clicks"])
    writers = [table, by_spark] if first == "delta-rs" else [by_spark, table]
    odd = writers[1].open_run(other, 1)
    runs: list[OffsetsRun] = []
    for step, (writer, key) in enumerate(zip([*writers, *writers], [KEY, KEY, both, KEY], strict=True), 1):
        clock.now += 1
        assert odd.record(at({FIRST: 280 * step})) is True
        runs.append(writer.open_run(key, 1, force=True))
        assert runs[-1].record(at({FIRST: 28 * step, SECOND: 28})) is True
        for reader in writers:
            found = reader.latest(key)
            assert found is not None
            assert (found.sequence, found.run_epoch, found.positions[FIRST]) == (step, clock.now, 28 * step)
        for older in runs[:-1]:
            with pytest.raises(SupersededRun, match=f"epoch {clock.now}"):
                older.record(at({FIRST: 2800}))
    assert table.positions("clicks_etl", ["clicks"]) == by_spark.positions("clicks_etl", ["clicks"])
    found = table.latest(other)
    assert found is not None
    assert (found.sequence, found.positions) == (4, {FIRST: 1120})
    assert by_spark.latest(other) == found
    protocol = DeltaTable(uri).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert (protocol.reader_features, protocol.writer_features) == (None, None)


@pytest.mark.parametrize("slow", ["delta-rs", "delta-spark"])
def test_the_fence_between_look_and_write_holds_across_writers_and_topics(
    delta_spark: SparkSession, table: OffsetsTable, by_spark: OffsetsTable, uri: str, clock: Clock, slow: str
) -> None:
    storage = Between(DeltaRsStorage(uri, {}) if slow == "delta-rs" else DeltaSparkStorage(delta_spark, uri))
    old = OffsetsTable(uri, clock_ms=clock, storage=storage).open_run(KEY, 1)
    old.record(at({FIRST: 28}))
    clock.now += 1
    other = by_spark if slow == "delta-rs" else table
    new = other.open_run(GroupKey("clicks_etl", ["clicks", "views"]), 1, force=True)
    storage.act = lambda: new.record(at({FIRST: 84}))
    with pytest.raises(SupersededRun):
        old.record(at({FIRST: 56}))


class Overtaken(DeltaSparkStorage):
    """delta-rs commits for `key` while delta-spark's own commit is being written, the first time."""

    def __init__(self, spark: SparkSession, uri: str, key: GroupKey, marker: Path) -> None:
        super().__init__(spark, uri)
        self._other = uri, key, marker

    def _data(self, rows: object) -> DataFrame:
        uri, key, marker = self._other

        def overtake(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            if not marker.exists():
                marker.touch()
                OffsetsTable(uri).open_run(key, 1, force=True).record(at({FIRST: 2800}))
            yield from batches

        frame = super()._data(rows)  # type: ignore[arg-type]
        return frame.mapInArrow(overtake, frame.schema)


@pytest.mark.parametrize("topics", [["clicks"], ["clicks", "views"]])
def test_delta_rs_may_overtake_a_commit_of_delta_spark(
    delta_spark: SparkSession, table: OffsetsTable, uri: str, tmp_path: Path, topics: list[str]
) -> None:
    table.open_run(KEY, 1, force=True).record(at({FIRST: 28}))
    marker = tmp_path / "overtaken"
    storage = Overtaken(delta_spark, uri, GroupKey("clicks_etl", topics), marker)
    run = OffsetsTable(uri, storage=storage).open_run(KEY, 1, force=True)
    with pytest.raises(SupersededRun):
        run.record(at({FIRST: 56}))
    assert marker.exists()
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 2800}


def test_another_group_may_overtake_a_commit_of_delta_spark(
    delta_spark: SparkSession, table: OffsetsTable, uri: str, tmp_path: Path
) -> None:
    table.open_run(KEY, 1, force=True).record(at({FIRST: 28}))
    storage = Overtaken(delta_spark, uri, GroupKey("other", ["clicks"]), tmp_path / "overtaken")
    assert OffsetsTable(uri, storage=storage).open_run(KEY, 1, force=True).record(at({FIRST: 56})) is True
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 56}
    assert table.positions("other", ["clicks"]) == {FIRST: 2800}
