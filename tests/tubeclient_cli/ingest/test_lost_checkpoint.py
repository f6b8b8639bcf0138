"""A new checkpoint for a table that has rows already: where it begins, and that its batches are written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.tubeclient_cli.ingest.bench import KEYS, Bench
from tests.tubeclient_cli.ingest.lake import cut_history
from tubeclient_cli.ingest.sink_check import UnknownRows
from tubeclient_cli.ingest.sink_history import Commit
from tubeclient_cli.ingest.target_table import SparkTargetTable

pytestmark = pytest.mark.spark


def run_with_two_checkpoints(bench: Bench) -> list[int]:
    """Two runs with two batches each; returns how many rows the second says that it has read."""
    for name in ("first", "second"):
        bench.send(40)
        rows = [event.rows for event in bench.run(name, max_offsets_per_trigger=20)]
    return rows


def test_each_checkpoints_batches_are_written(bench: Bench) -> None:
    assert run_with_two_checkpoints(bench) == [20, 20]
    assert bench.repeated_or_missing() == {}


def test_a_table_that_is_ahead_leaves_no_message_out_unless_the_user_says_so(bench: Bench) -> None:
    bench.send(20)
    bench.run("first")
    bench.send(20)
    elsewhere = str(bench.folder / "elsewhere")
    bench.run("other", target=elsewhere)
    assert DeltaTable(elsewhere).count() == 20
    # The later of the two by the sink alone: it has what the group read into the other one as well.
    bench.send(20)
    assert sum(event.rows for event in bench.run("second")) == 40
    assert "The offsets table is ahead of the target in 2 partitions of clicks" in bench.said[-1]
    assert bench.repeated_or_missing() == {}
    # By the word "group", by the later of the two.
    assert sum(event.rows for event in bench.run("third", target=elsewhere, starting_offsets="group")) == 0
    assert bench.said[-1].endswith("begins where the offsets table has the group, in 2 partitions of clicks")
    assert DeltaTable(elsewhere).count() == 20
    bench.send(20)
    assert sum(event.rows for event in bench.run("third", target=elsewhere)) == 20
    assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 40)


def test_a_second_job_of_a_group_that_writes_meanwhile_raises_no_false_alarm(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first job adds rows after the second one's look at the target, and moves the offsets table."""
    from pyspark.errors import StreamingQueryException

    bench.send(20)
    bench.run("first")
    bench.send(20)
    look = SparkTargetTable.history

    def history(table: SparkTargetTable, limit: int) -> list[Commit]:
        found = look(table, limit)
        monkeypatch.undo()
        bench.run("first")
        return found

    monkeypatch.setattr(SparkTargetTable, "history", history)
    with pytest.raises(StreamingQueryException, match=r"\[ROWS_WOULD_REPEAT\] .* Start with a new checkpoint"):
        bench.run("second")
    assert (
        bench.said[-1]
        == "the checkpoint is new and begins where the group's rows in the target end, in 2 partitions of clicks"
    )
    assert bench.repeated_or_missing() == {}


def test_where_the_history_is_cut_an_old_checkpoint_is_told_by_the_offsets_table(bench: Bench) -> None:
    bench.send(20)
    bench.run("first")
    shutil.copytree(bench.folder / "first", bench.folder / "backup")
    bench.send(20)
    bench.run("first")
    cut_history(Path(bench.settings.target))
    for _ in range(2):
        with pytest.raises(UnknownRows, match="this checkpoint seems outdated: its last batch ends at 280 in 1:clicks"):
            bench.run("backup")
    assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 20)
    bench.send(20)
    assert sum(event.rows for event in bench.run("first")) == 20
    assert bench.repeated_or_missing() == {}
