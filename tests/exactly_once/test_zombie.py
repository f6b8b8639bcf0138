"""A driver that is set aside stands still, is no part of the job any more, and goes on when it is let."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_source.offsets.offsets import Offsets
from tests.exactly_once.job import Job
from tests.exactly_once.looking import end_of_sink, newest_commit_of
from tests.exactly_once.processes import Child, none_left
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey
from tubeclient_ingest.record import SinkRecord

# Two processes, as a driver is several.
WRITER = """
import subprocess, sys, time
count = sys.argv[1]
if count == "1":
    subprocess.Popen([sys.executable, __file__, "2"])
while True:
    with open(f"{__file__}.{count}", "a") as file:
        file.write("x")
    time.sleep(0.01)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    mark = uuid.uuid4().hex
    with none_left(mark):
        job = Job(tmp_path, mark, "spark://127.0.0.1:1", {}, {})
        script = tmp_path / "writer.py"
        script.write_text(WRITER)
        job.runs.append(Child("writer", [sys.executable, str(script), "1"], tmp_path / "log", mark))
        yield job


def test_what_is_set_aside_stands_still_and_goes_on(job: Job) -> None:
    written = [job.folder / f"writer.py.{name}" for name in "12"]

    def sizes() -> list[int]:
        return [path.stat().st_size if path.exists() else 0 for path in written]

    def grow(than: list[int]) -> bool:
        return all(now > then for now, then in zip(sizes(), than, strict=True))

    commit(job.table, 0, "one")
    wait_for(lambda: all(sizes()), "both to write")
    [first] = job.pythons()
    zombie = job.set_aside()
    try:
        assert zombie.run_id == "one"
        assert first in zombie.processes
        assert job.pythons() == []
        # SIGSTOP is there when the state says so.
        wait_for(lambda: all(state_of(one.pid) == "T" for one in zombie.processes), "both to stand still")
        before = sizes()
        time.sleep(0.1)
        assert sizes() == before
        zombie.go_on()
        wait_for(lambda: grow(before), "both to go on")
    finally:
        zombie.kill()


def commit(table: Path, version: int, run_id: str) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    record = SinkRecord("g", run_id, Offsets({PartitionKey(1, "t", 0): 28 * version}), sequence=version + 1)
    entry = {"commitInfo": {"userMetadata": record.to_json()}}
    (log / f"{version:020}.json").write_text(json.dumps(entry))


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_whose_the_tables_newest_commits_are(tmp_path: Path) -> None:
    for version, run_id in enumerate(["one", "two", "two"]):
        commit(tmp_path, version, run_id)
    assert [newest_commit_of(tmp_path, name) for name in ("one", "two", "three")] == [0, 2, -1]
    assert end_of_sink(tmp_path) == {"1:t:0": 56}
