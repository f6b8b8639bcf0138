"""Recording positions: what is written, when nothing is, and how big the table stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from offsets_store import GroupKey, OffsetsTable, PartitionProgress, delta_rs
from offsets_store.rows import Row
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tubeclient.keys import PartitionKey
from tubeclient.names import GroupName


def test_a_position_has_the_time_of_its_ends(table: OffsetsTable, clock: Clock) -> None:
    """A table that was behind is written later."""
    run, looked = table.open_run(KEY, 1), datetime(2023, 11, 14, tzinfo=UTC)
    for step, told, kept in ((1, looked, looked), (2, None, datetime.fromtimestamp(clock.now / 1000, UTC))):
        run.record(at({FIRST: 28 * step}), told)
        found = table.latest(KEY)
        assert found is not None
        assert found.updated_at == kept


def test_the_same_positions_again_are_no_commit(
    table: OffsetsTable, open_table: Callable[[], OffsetsTable], uri: str
) -> None:
    run = table.open_run(KEY, 2, force=True)
    run.record(at({FIRST: 28}))
    version = DeltaTable(uri).version()
    assert run.record(at({FIRST: 28})) is False
    # Not even where only the broker's end moved, and not by the next run either: a replayed batch is not news.
    assert run.record([PartitionProgress(FIRST, 28, 2_800_000, 1)]) is False
    assert open_table().open_run(KEY, 2, force=True).record(at({FIRST: 28})) is False
    assert DeltaTable(uri).version() == version
    assert run.record(at({FIRST: 56})) is True


def test_commit_leaves_one_file(table: OffsetsTable, uri: str) -> None:
    """Each commit replaces the group's rows and leaves a single file."""
    run = table.open_run(KEY, 2, force=True)
    run.record(at({FIRST: 28, SECOND: 28}))
    for step in range(2, 8):
        run.record(at({FIRST: 28 * step}))
    found = DeltaTable(uri)
    assert found.to_pyarrow_table().num_rows == 1
    assert len(found.file_uris()) == 1
    assert found.to_pyarrow_table(columns=["lag"]).column("lag").to_pylist() == [10]


def test_rows_are_read_only_where_somebody_else_wrote(
    table: OffsetsTable, open_table: Callable[[], OffsetsTable], uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = delta_rs._rows_of

    def counted(table: DeltaTable, consumer_group: GroupName) -> list[Row]:
        read.append(consumer_group)
        return original(table, consumer_group)

    views = GroupKey("clicks_etl", ["views"])
    table.open_run(views, 1).record(at({PartitionKey(1, "views", 0): 280}))
    monkeypatch.setattr(delta_rs, "_rows_of", counted)
    run = table.open_run(KEY, 2, force=True)
    for step in range(1, 5):
        run.record(at({FIRST: 28 * step}))
    assert read == []
    open_table().open_run(GroupKey("other", ["clicks"]), 1).record(at({FIRST: 28}))
    assert run.record(at({FIRST: 140})) is True
    assert read == ["other", "clicks_etl"]
    DeltaTable(uri).update(
        updates={"nextOffset": "5600"}, predicate="topic = 'clicks' AND \"consumerGroup\" = 'clicks_etl'"
    )
    assert run.record(at({FIRST: 140})) is True
    # What the group has of other topics stays through all this.
    assert open_table().positions("clicks_etl", ["clicks", "views"]) == {FIRST: 140, PartitionKey(1, "views", 0): 280}


def test_newest_record_wins_across_topic_sets(table: OffsetsTable) -> None:
    """A group that changes its topics goes on where it was in those it keeps."""
    views = PartitionKey(1, "views", 0)
    table.open_run(KEY, 1, force=True).record(at({FIRST: 280, SECOND: 280}))
    table.open_run(GroupKey("clicks_etl", ["clicks", "views"]), 1, force=True).record(at({FIRST: 56, views: 84}))
    # SECOND is known from the older record only; FIRST went back, and the newer record counts, not the higher one.
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 56, SECOND: 280}
    assert table.positions("clicks_etl", ["views", "clicks"]) == {FIRST: 56, SECOND: 280, views: 84}
    assert table.positions("other", ["clicks"]) == {}
    table.open_run(KEY, 1, force=True).record(at({FIRST: 112, SECOND: 280}))
    found = table.latest(KEY)
    assert found is not None
    assert (found.sequence, found.positions) == (3, {FIRST: 112, SECOND: 280})


def test_wrong_calls_write_nothing(table: OffsetsTable, uri: str) -> None:
    """A run refuses repeated partitions and other topics before it writes anything."""
    run = table.open_run(KEY, 1, force=True)
    with pytest.raises(ValueError, match="named twice"):
        run.record([*at({FIRST: 28}), *at({FIRST: 56})])
    with pytest.raises(ValueError, match="other topics: views"):
        run.record(at({PartitionKey(1, "views", 0): 28}))
    with pytest.raises(ValueError, match="other topics"):
        run.keep_initial("latest", {PartitionKey(1, "views", 0): 28})
    assert not Path(uri).exists()


def test_maintenance_removes_old_files(table: OffsetsTable, uri: str) -> None:
    """Maintenance removes old files and keeps the positions."""
    run = table.open_run(KEY, 1)
    for step in range(1, 6):
        run.record(at({FIRST: 28 * step}))
    assert table.maintain() == 0  # all are younger than a day
    # Left behind by a writer that died before its commit.
    next(Path(uri).glob("consumerGroup=*")).joinpath("part-orphan.parquet").write_bytes(b"")
    assert table.maintain(retention_hours=0) == 5
    assert len(list(Path(uri).glob("consumerGroup=*/*.parquet"))) == 1
    assert run.record(at({FIRST: 280})) is True
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 280}


def test_maintenance_leaves_what_is_not_the_tables(
    table: OffsetsTable, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as the target and the checkpoint of a job, made in the table's folder after it."""
    run = table.open_run(KEY, 1)
    for step in range(1, 4):
        run.record(at({FIRST: 28 * step}))
    write_deltalake(str(Path(uri, "clicks")), pa.table({"a": [1, 2]}))
    checkpoint = Path(uri, "checkpoints", "clicks", "offsets", "0")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("v1")
    table.maintain(retention_hours=0)
    assert "also has other files, such as checkpoints/clicks/offsets/0. A VACUUM" in caplog.text
    assert DeltaTable(str(Path(uri, "clicks"))).count() == 2
    assert checkpoint.exists()
    assert run.record(at({FIRST: 280})) is True
