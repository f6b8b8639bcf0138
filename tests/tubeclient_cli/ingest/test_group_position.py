"""What a run leaves in the offsets table when it ends, however late that is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.group_position import bring_up_to_date
from tubeclient_cli.ingest.settings import IngestSettings

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
KEY = GroupKey("g", ["clicks"])


@pytest.fixture
def settings(tmp_path: Path) -> IngestSettings:
    return IngestSettings(
        master_servers="127.0.0.1:1",
        consumer_group="g",
        topics=("clicks",),
        target=str(tmp_path / "t"),
        checkpoint=str(tmp_path / "c"),
        offsets_table=str(tmp_path / "offsets"),
        source_count=2,
    )


def now() -> datetime:
    return datetime.now(UTC)


def table(settings: IngestSettings) -> OffsetsTable:
    assert settings.offsets_table is not None
    return OffsetsTable(settings.offsets_table)


def at(*offsets: int) -> list[PartitionProgress]:
    return [PartitionProgress(key, offset, None, 1) for key, offset in zip((A, B), offsets, strict=True)]


def test_the_last_batch_is_noted(settings: IngestSettings) -> None:
    table(settings).open_run(KEY, 2).record(at(28, 28))
    bring_up_to_date(settings, {A: 56, B: 28, PartitionKey(1, "views", 0): 28}, now())
    found = table(settings).latest(KEY)
    assert found is not None
    assert (found.positions, found.source_count) == ({A: 56, B: 28}, 2)
    assert {row.node_id for row in found.partitions} == {1}


@pytest.mark.parametrize("source_count", [2, None])
def test_a_place_where_the_query_began_goes_with_it(settings: IngestSettings, source_count: int | None) -> None:
    run = table(settings).open_run(KEY, 2)
    run.keep_initial("latest", {A: 28, B: 28})
    bring_up_to_date(replace(settings, source_count=source_count), {A: 56, B: 28}, now())
    found = table(settings).latest(KEY)
    assert found is not None
    assert (found.positions, found.source_count) == ({A: 56, B: 28}, 2)
    assert table(settings).open_run(KEY, 2, force=True).initial_offsets("latest") is None


def test_a_run_that_ends_late_takes_nothing_from_its_successor(settings: IngestSettings) -> None:
    table(settings).open_run(KEY, 2).record(at(28, 28))
    looked_at = now()
    successor = table(settings).open_run(KEY, 2, force=True)
    successor.record(at(84, 28))
    bring_up_to_date(settings, {A: 56, B: 56}, looked_at)
    assert table(settings).positions("g", ["clicks"]) == {A: 84, B: 28}
    # The target as it is now is news to the table, and still no newer run.
    bring_up_to_date(settings, {A: 84, B: 56}, now())
    assert table(settings).positions("g", ["clicks"]) == {A: 84, B: 56}
    found = table(settings).latest(KEY)
    assert found is not None
    assert found.run_epoch == successor.epoch
    assert successor.record(at(112, 84)) is True
    assert table(settings).positions("g", ["clicks"]) == {A: 112, B: 84}


def test_nothing_is_written_where_nothing_is_known(settings: IngestSettings) -> None:
    bring_up_to_date(settings, {}, now())
    bring_up_to_date(replace(settings, source_count=None), {A: 28}, now())
    bring_up_to_date(replace(settings, offsets_table=None), {A: 28}, now())
    assert not Path(str(settings.offsets_table)).exists()


def test_a_table_that_cannot_be_written_is_a_warning(
    settings: IngestSettings, caplog: pytest.LogCaptureFixture
) -> None:
    Path(str(settings.offsets_table)).mkdir()
    (Path(str(settings.offsets_table)) / "something else").touch()
    bring_up_to_date(settings, {A: 28}, now())
    assert "the offsets table was not written; it is one batch behind the target" in caplog.text
