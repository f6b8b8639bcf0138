"""Offsets tables that are none, on disk: at a query's start, and when they become so in its middle."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest
from deltalake import write_deltalake

from offsets_store import OffsetsTable, OffsetsTableError
from spark_source.progress.follower import Waits
from tests.spark_source.fakes import ROW, FakeCluster, as_json, planner_with
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream
from tests.spark_source.table_trouble import let_it_work
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAITS = Waits(retry=3600.0)


def of_another_schema(folder: Path) -> None:
    write_deltalake(str(folder), pyarrow.table({"id": [1]}))


def no_delta_table(folder: Path) -> None:
    folder.mkdir()
    (folder / "letter.txt").write_text("kept")


def a_file(folder: Path) -> None:
    folder.write_text("kept")


def a_newer_protocol(folder: Path) -> None:
    of_another_schema(folder)
    log = folder / "_delta_log" / f"{1:020}.json"
    log.write_text('{"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}\n')


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "another schema": (of_another_schema, "is not an offsets table of this release\\. Name a folder of its own"),
    "not a Delta table": (no_delta_table, "is not a Delta table and not empty; name a new or empty folder"),
    "a file": (a_file, "is a file; name a new or empty folder"),
    "a newer protocol": (
        a_newer_protocol,
        "could not read the offsets table at .*Unsupported minimum reader version 99",
    ),
}


def content(folder: Path) -> Mapping[str, bytes]:
    paths = [folder, *folder.rglob("*")]
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


@pytest.mark.parametrize("mode", ["strict", "best_effort"])
@pytest.mark.parametrize("kind", KINDS)
def test_at_the_start_it_is_an_error(tmp_path: Path, kind: str, mode: str) -> None:
    make, said = KINDS[kind]
    folder = tmp_path / "offsets"
    make(folder)
    before = content(folder)
    one = planner_with(None, WAITS, FakeCluster(), None, offsetsTable=folder, offsetsTableMode=mode)
    with pytest.raises(OffsetsTableError, match=said):
        one.initial()
    one.close()
    assert content(folder) == before


@pytest.mark.parametrize("mode", ["strict", "best_effort"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_the_middle_the_mode_decides(tmp_path: Path, kind: str, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    make, said = KINDS[kind]
    folder = tmp_path / "offsets"
    one = planner_with(None, WAITS, FakeCluster(), None, offsetsTable=folder, offsetsTableMode=mode)
    start = as_json({"1:t:0": 1, "1:t:1": 1})
    one.complete(start)
    let_it_work(one)  # to the very end of the first commit: the table is to go between two
    assert (folder / "_delta_log" / f"{1:020}.json").exists()
    shutil.rmtree(folder)
    make(folder)
    strange = content(folder)
    end = as_json({"1:t:0": 2, "1:t:1": 2})
    if mode == "strict":
        with pytest.raises(OffsetsTableError, match=f"the query ends because its offsets table .* is strict: .*{said}"):
            one.latest(end, None)
    else:
        assert one.latest(end, None) == as_json({"1:t:0": 10, "1:t:1": 10})
    one.close()
    if mode == "best_effort":
        assert "its last position could not be written to the offsets table" in caplog.text
    assert content(folder) == strange


HANGING = """
import os, pathlib, sys
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tubeclient.keys import PartitionKey
from spark_source.progress.follower import Waits
from tests.spark_source.fakes import FakeCluster, as_json, planner_with

folder, mode = pathlib.Path(sys.argv[1]), sys.argv[2]
planner_with(None, Waits(), FakeCluster(), None, offsetsTable=folder).complete(as_json({"1:t:0": 1, "1:t:1": 1}))
one = planner_with(None, Waits(call=30, end=0.5), FakeCluster(), None, offsetsTable=folder, offsetsTableMode=mode)
one.partitions(as_json({"1:t:0": 1}), as_json({"1:t:0": 1}))  # the run has begun
# A commit looks at the rows only if somebody else has written.
other = OffsetsTable(str(folder)).open_run(GroupKey("other", ["t"]), 1)
other.record([PartitionProgress(PartitionKey(1, "t", 0), 28)])
for data in folder.rglob("*.parquet"):
    data.unlink()
    os.mkfifo(data)  # whoever opens it waits for a writer
one._progress._follower._waits = Waits(call=0.5)
try:
    one.complete(as_json({"1:t:0": 2, "1:t:1": 2}))
except Exception as error:
    print(error)
one.close()
print("closed")
"""


@pytest.mark.parametrize("mode", ["strict", "best_effort"])
def test_a_disk_that_does_not_answer_keeps_neither_the_query_nor_the_process(tmp_path: Path, mode: str) -> None:
    """delta-rs waits in its own code, where Python has no say."""
    found = subprocess.run(
        [sys.executable, "-c", HANGING, str(tmp_path / "offsets"), mode], capture_output=True, text=True, timeout=60
    )
    *said, last = found.stdout.splitlines()
    assert (found.returncode, last) == (0, "closed"), found.stderr
    if mode == "strict":
        assert re.search("offsetsTableMode is strict: .* gave no answer within 0.5 s", said[0])
    else:
        assert said == []
        assert "its last position could not be written to the offsets table" in found.stderr


def rows_in(folder: Path, feed: Feed) -> set[int]:
    """Where the topic's own group is, in rows of each store."""
    return {at // ROW for at in OffsetsTable(str(folder)).positions(f"{feed.topic}_group", [feed.topic]).values()}


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["strict", "best_effort"])
def test_a_table_that_is_replaced_under_a_running_query(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, mode: str
) -> None:
    """Not by taking rights away, which root does not mind. A batch is 20 rows of each of two stores."""
    feed.send(160)
    folder, aside = tmp_path / "offsets", tmp_path / "aside"
    sink = Batches()

    def each_batch(frame: DataFrame, batch_id: int) -> None:
        sink(frame, batch_id)
        if batch_id == 1 and not aside.exists():
            wait_for(lambda: rows_in(folder, feed) == {20}, "batch 0 to be in the table")
            folder.rename(aside)
            folder.write_text("kept")

    options = feed.options(
        startingOffsets="earliest", maxOffsetsPerTrigger=40, offsetsTable=folder, offsetsTableMode=mode
    )
    frame = stream(delta_spark, options)
    if mode == "strict":
        said = (
            r"\] the query ends because its offsets table could not be written and offsetsTableMode is "
            r"strict: \S+/offsets is a file; name a new or empty folder as the offsets table. Nothing is lost: repair "
            r"the table"
        )
        with pytest.raises(Exception, match=said):
            run_available(frame, tmp_path / "checkpoint", each_batch)
        assert sorted(sink.bodies) == [0, 1]
    else:
        run_available(frame, tmp_path / "checkpoint", each_batch)
        assert sink.all == feed.sent
    assert folder.read_text() == "kept"
    assert rows_in(aside, feed) == {20}
    feed.wait_until_free()
    folder.unlink()
    aside.rename(folder)
    feed.send(40)
    run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.all == feed.sent
    assert sink.sizes == [40] * 5
    assert rows_in(folder, feed) == {100}
