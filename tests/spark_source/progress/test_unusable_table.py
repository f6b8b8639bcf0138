"""Offsets tables on disk that go bad in a query's middle: the mode decides, and nobody waits for ever."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from offsets_store import OffsetsTableError
from spark_source.progress.follower import Waits
from tests.spark_source.fake_storage import let_it_work
from tests.spark_source.fakes import FakeCluster, as_json, planner_with


@pytest.mark.parametrize("mode", ["strict", "best_effort"])
def test_a_table_that_something_else_has_replaced(tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "offsets"
    waits = Waits(retry=3600.0)
    one = planner_with(None, waits, FakeCluster(), None, offsetsTable=folder, offsetsTableMode=mode)
    one.complete(as_json({"1:t:0": 1, "1:t:1": 1}))
    let_it_work(one)  # to the very end of the first commit: the table is to go between two
    assert (folder / "_delta_log" / f"{1:020}.json").exists()
    shutil.rmtree(folder)
    folder.write_text("kept")
    end = as_json({"1:t:0": 2, "1:t:1": 2})
    if mode == "strict":
        with pytest.raises(OffsetsTableError, match=r"the query ends because its offsets table .* is a file; name"):
            one.latest(end, None)
    else:
        assert one.latest(end, None) == as_json({"1:t:0": 10, "1:t:1": 10})
    one.close()
    if mode == "best_effort":
        assert "its last position could not be written to the offsets table" in caplog.text
    assert folder.read_text() == "kept"


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
