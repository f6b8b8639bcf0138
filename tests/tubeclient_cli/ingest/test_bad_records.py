"""`--bad-records` of the job itself, on messages that no InLong client can read."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.exactly_once.processes import Child
from tests.tubeclient_cli.ingest.bench import Bench
from tests.tubeclient_cli.ingest.command import START_SECONDS, ingest, settings_file
from tests.tubeclient_cli.ingest.lake import wrong
from tubeclient_cli.ingest.dead_letters import DeadLetters
from tubeclient_cli.ingest.sink import DeltaSink

pytestmark = pytest.mark.spark

_BAD = b"\0\0\0\x63k="
"""Says that 99 bytes of attributes follow."""


def bad_message(number: int, partition: int = 0) -> NewMessage:
    return NewMessage(partition, _BAD + b"%d" % number, 1)


def send(bench: Bench, good: int, bad: int) -> None:
    bench.send(good)
    bench.tube.load("clicks", [bad_message(n, 10_000 * (n % 2)) for n in range(bench.sent, bench.sent + bad)])
    bench.sent += bad


def letters_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(folder / "letters")).to_pyarrow_table().to_pylist()
    return rows


def repeated_or_missing(folder: Path, end: int) -> dict[int, int]:
    values = DeltaTable(str(folder / "table")).to_pyarrow_table().column("value").to_pylist()
    letters = [int(row["value"].removeprefix(_BAD)) for row in letters_of(folder)]
    return wrong([*map(int, values), *letters], end)


def test_bad_messages_are_in_their_table_and_counted(bench: Bench) -> None:
    letters = str(bench.folder / "letters")
    send(bench, 20, 4)
    events = bench.run(bad_records=letters)
    assert [(event.rows, event.bad_rows, event.total_bad_rows) for event in events] == [(24, 4, 4)]
    send(bench, 10, 0)
    assert [(event.rows, event.total_bad_rows) for event in bench.run(bad_records=letters)] == [(10, 0)]
    assert repeated_or_missing(bench.folder, 34) == {}
    columns = {"sequence", "batchId", "topic", "partitionKey"}
    placed = {tuple(row[name] for name in sorted(columns)) for row in letters_of(bench.folder)}
    assert placed == {(0, f"1:clicks:{partition}", 1, "clicks") for partition in (0, 10_000)}
    assert all("attributes" in row["reason"] for row in letters_of(bench.folder))


@pytest.mark.parametrize("checkpoint", ["checkpoint", "new"])
@pytest.mark.parametrize(("place", "method"), [(DeltaSink, "append"), (DeadLetters, "publish")])
def test_a_job_that_fails_anywhere_in_a_batch_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: type, method: str, checkpoint: str
) -> None:
    from pyspark.errors import StreamingQueryException

    def fail(*_: object) -> None:
        raise OSError("the lake is dry")

    letters = str(bench.folder / "letters")
    send(bench, 10, 2)
    bench.run(bad_records=letters)
    send(bench, 10, 2)
    with monkeypatch.context() as patched:
        patched.setattr(place, method, fail)
        with pytest.raises(StreamingQueryException, match="the lake is dry"):
            bench.run(bad_records=letters)
    send(bench, 10, 2)
    bench.run(checkpoint, bad_records=letters)
    assert repeated_or_missing(bench.folder, 36) == {}


def test_more_than_the_user_accepts_end_the_job_and_nothing_is_written(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    letters = str(bench.folder / "letters")
    send(bench, 19, 2)
    with pytest.raises(StreamingQueryException, match=r"\[TOO_MANY_BAD_RECORDS\] 2 of 21 records of batch 0 are bad"):
        bench.run(bad_records=letters, max_bad_records="5%")
    assert not DeltaTable.is_deltatable(bench.settings.target)
    assert letters_of(bench.folder) == []
    bench.run(bad_records=letters, max_bad_records="10%")
    assert repeated_or_missing(bench.folder, 21) == {}


_KILLED = """
import importlib, os, signal, sys
module, name, method = sys.argv[1].split(":")
place = getattr(importlib.import_module(module), name)
real = getattr(place, method)
def die(*arguments):
    real(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(place, method, die)
sys.argv[1:2] = []
from tubeclient_cli.app import main
main()
"""


@pytest.mark.parametrize("where", ["dead_letters:DeadLetters:stage", "sink:DeltaSink:append"])
def test_a_driver_that_is_killed_at_a_step_of_its_batch(tube: EmbeddedTubeMQ, tmp_path: Path, where: str) -> None:
    tube.load("clicks", [bad_message(n) for n in range(50, 55)])
    mark = uuid.uuid4().hex
    letters = ("--bad-records", str(tmp_path / "letters"))
    command = [sys.executable, "-c", _KILLED, f"tubeclient_cli.ingest.{where}", "ingest", *letters]
    command += ["--settings", str(settings_file(tube, tmp_path, "available-now")), "--spark-master", "local[2]"]
    command += ["--conf", "spark.driver.memory=1g", "--max-offsets-per-trigger", "100"]
    killed = Child("ingest", command, tmp_path / "log-killed", mark)
    try:
        assert killed.wait(START_SECONDS) == -signal.SIGKILL, killed.tail()
    finally:
        killed.kill()
    assert letters_of(tmp_path) == []
    assert len(os.listdir(tmp_path / "letters" / "_staged")) == 1
    after = ingest(tube, tmp_path, *letters, "--checkpoint", str(tmp_path / "new"), trigger="available-now")
    try:
        assert after.wait(START_SECONDS) == 0, after.tail()
    finally:
        after.kill()
    assert repeated_or_missing(tmp_path, 55) == {}
