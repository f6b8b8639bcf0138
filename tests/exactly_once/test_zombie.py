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
from tests.exactly_once.processes import Child, Found, marked, none_left
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.sink_record import SinkRecord

# Two processes, as a driver is several; the second one's command is that of a planner.
WRITER = """
import subprocess, sys, time
count = sys.argv[1]
if count == "1":
    subprocess.Popen([sys.executable, __file__, "python_streaming_source_runner"])
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
    written = [job.folder / f"writer.py.{name}" for name in ("1", "python_streaming_source_runner")]

    def sizes() -> list[int]:
        return [path.stat().st_size if path.exists() else 0 for path in written]

    def grow(than: list[int]) -> bool:
        return all(now > then for now, then in zip(sizes(), than, strict=True))

    job.checkpoint.mkdir()
    (job.checkpoint / "metadata").write_text('{"id": "one"}')
    wait_for(lambda: all(sizes()), "both to write")
    [planner] = job.planners()
    first = job.checkpoint
    zombie = job.set_aside()
    try:
        assert zombie.query_id == "one"
        assert planner in zombie.processes
        assert job.planners() == []
        assert job.checkpoint != first
        # SIGSTOP is there when the state says so.
        wait_for(lambda: all(state_of(one.pid) == "T" for one in zombie.processes), "both to stand still")
        before = sizes()
        time.sleep(0.1)
        assert sizes() == before
        zombie.go_on()
        wait_for(lambda: grow(before), "both to go on")
    finally:
        zombie.kill()


# Its child has the command line of a driver, as a child of a JVM does at first, and another one at the sign.
CHANGING = """
import os, sys, time
name, sign = sys.argv[1:]
if name == "org.apache.spark.deploy.SparkSubmit" and not os.fork():
    while not os.path.exists(sign):
        time.sleep(0.01)
    os.execv("/bin/sleep", ["sleep", "0.3"])
time.sleep(60)
"""


@pytest.mark.parametrize("caught", [True, False])
def test_a_drivers_child_that_becomes_another_command_goes_on_as_well(caught: bool, tmp_path: Path) -> None:
    """Hadoop starts `readlink` and `chmod`; stopped for good, they would stay when the driver is killed."""
    mark, sign = uuid.uuid4().hex, tmp_path / "sign"
    with none_left(mark, seconds=5):
        job = _ChangingJob(tmp_path, mark, sign, caught)
        command = [sys.executable, "-c", CHANGING, "org.apache.spark.deploy.SparkSubmit", str(sign)]
        job.runs.append(Child("driver", command, tmp_path / "log", mark))
        try:
            wait_for(lambda: len(job.drivers()) == 2, "both to be there")
            assert job.caught_between_batches() == caught
            assert job.changed
            if not caught:
                wait_for(lambda: len(marked(mark)) == 1, "the command to end while the driver runs", seconds=5)
        finally:
            job.kill()


class _ChangingJob(Job):
    """After a look at its drivers, one of them becomes another command."""

    def __init__(self, folder: Path, mark: str, sign: Path, caught: bool) -> None:
        super().__init__(folder, mark, "spark://127.0.0.1:1", {}, {})
        self._sign = sign
        self._caught = caught
        self.changed = False

    def drivers(self) -> list[Found]:
        return super()._drivers()

    def _drivers(self) -> list[Found]:
        found = self.drivers()
        if not self.changed and len(found) == 2:
            self._sign.touch()
            wait_for(lambda: len(self.drivers()) == 1, "the child to become another command")
            self.changed = True
        return found

    @property
    def planned(self) -> int:
        return 0 if self._caught or not self.changed else 1

    @property
    def committed(self) -> int:
        return 0


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_whose_the_tables_newest_commits_are(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version, query_id in enumerate(["one", "two", "two"]):
        record = SinkRecord("g", query_id, version, Offsets({PartitionKey(1, "t", 0): 28 * version}))
        entry = {"commitInfo": {"userMetadata": record.to_json()}}
        (log / f"{version:020}.json").write_text(json.dumps(entry))
    assert [newest_commit_of(tmp_path, name) for name in ("one", "two", "three", None)] == [0, 2, -1, -1]
    assert end_of_sink(tmp_path) == {"1:t:0": 56}
