"""Checkpoints and the deletion of what is old: beside the commits, never in their way."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsets_store import OffsetsTable, OffsetsTableError
from offsets_store.delta_rs import DeltaRsStorage
from tests.offsets_store.conftest import FIRST, KEY, at
from tests.waiting import wait_for


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsets_store.delta_rs.UPKEEP_COMMITS", 10)


@pytest.fixture
def storage(uri: str) -> DeltaRsStorage:
    return DeltaRsStorage(uri, {})


def _record_many(uri: str, storage: DeltaRsStorage, commits: int) -> None:
    run = OffsetsTable(uri, storage=storage).open_run(KEY, 1, force=True)
    for step in range(1, commits + 1):
        assert run.record(at({FIRST: 28 * step})) is True
        assert storage.wait_for_upkeep(30)


def test_a_commit_writes_no_checkpoint_itself(
    uri: str, storage: DeltaRsStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that a checkpoint is due, at each fiftieth version."""
    due: list[int] = []
    monkeypatch.setattr(DeltaRsStorage, "_begin_upkeep", lambda storage: due.append(1))
    _record_many(uri, storage, 101)
    assert due == [1, 1]
    assert list(Path(uri, "_delta_log").glob("*checkpoint*")) == []


@pytest.mark.usefixtures("small")
def test_a_failing_upkeep_is_a_warning_and_tried_again(
    uri: str, storage: DeltaRsStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(storage: DeltaRsStorage, retention_hours: int | None) -> int:
        raise OffsetsTableError("could not clean up: no room")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(DeltaRsStorage, "maintain", fail)
        _record_many(uri, storage, 25)
    assert [record.getMessage() for record in caplog.records] == [
        "could not clean up the offsets table; commits continue, with another try after 10 commits: could not clean "
        "up: no room"
    ] * 2
    _record_many(uri, storage, 6)
    assert Path(uri, "_delta_log", "_last_checkpoint").exists()


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.usefixtures("small")
def test_a_hanging_upkeep_holds_up_nobody(
    uri: str, storage: DeltaRsStorage, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []
    ended: list[bool] = []

    def hang(storage: DeltaRsStorage, retention_hours: int | None) -> int:
        begun.append(threading.current_thread().daemon)
        ended.append(release.wait(60))
        return 0

    monkeypatch.setattr(DeltaRsStorage, "maintain", hang)
    run = OffsetsTable(uri, storage=storage).open_run(KEY, 1)
    for step in range(1, 36):
        assert run.record(at({FIRST: 28 * step})) is True
    wait_for(lambda: begun, "the upkeep")
    # One, however often it was due, which would not keep the process from ending.
    assert (begun, ended) == ([True], [])
    assert storage.wait_for_upkeep(0.01) is False
    release.set()
    assert storage.wait_for_upkeep(30)


_SHORT_LIFE = """
import sys
from offsets_store import GroupKey, OffsetsTable, PartitionProgress, delta_rs
from tubeclient.keys import PartitionKey
delta_rs.UPKEEP_COMMITS = 3
run = OffsetsTable(sys.argv[1]).open_run(GroupKey("g", ["t"]), 1)
for step in range(1, 4):
    run.record([PartitionProgress(PartitionKey(1, "t", 0), 28 * step)])
"""


def test_exit_right_after_a_commit(uri: str) -> None:
    """A process that ends right after a commit still finishes the upkeep."""
    done = subprocess.run([sys.executable, "-c", _SHORT_LIFE, uri], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(Path(uri, "_delta_log", "_last_checkpoint").read_text())["version"] == 3
