"""Checkpoints and the deletion of what is old: beside the commits, never in their way, and the log stays short."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError
from offsets_store.delta_rs import DeltaRsStorage
from offsets_store.upkeep import Upkeep
from tests.offsets_store.conftest import FIRST, KEY, at
from tests.waiting import wait_for

ODD = GroupKey("it's/a;b%41ü", ["clicks"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsets_store.upkeep.EVERY_COMMITS", 10)
    monkeypatch.setattr("offsets_store.local_log.HISTORY_COMMITS", 20)


@pytest.fixture
def storage(uri: str) -> DeltaRsStorage:
    return DeltaRsStorage(uri, {})


def _record_many(uri: str, storage: DeltaRsStorage, key: GroupKey, commits: int) -> None:
    run = OffsetsTable(uri, storage=storage).open_run(key, 1, force=True)
    for step in range(1, commits + 1):
        assert run.record(at({FIRST: 28 * step})) is True
        assert storage.upkeep.wait(30)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("key", [KEY, ODD])
def test_after_many_commits_the_log_is_short_and_the_history_readable(
    uri: str, storage: DeltaRsStorage, key: GroupKey
) -> None:
    _record_many(uri, storage, key, 65)
    log = Path(uri, "_delta_log")
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 60
    # From the last checkpoint with 20 commits after it, at the time of the last upkeep.
    assert sorted(int(path.stem) for path in log.glob("*.json")) == list(range(40, 66))
    assert sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")) == [40, 50, 60]
    assert len(list(Path(uri).glob("consumerGroup=*/*.parquet"))) == 27
    for version in (40, 45, 65):
        assert DeltaTable(uri, version=version).to_pyarrow_table()["nextOffset"].to_pylist() == [28 * version]
    with pytest.raises(DeltaError):
        DeltaTable(uri, version=39)
    assert OffsetsTable(uri).positions(key.consumer_group, ["clicks"]) == {FIRST: 28 * 65}


@pytest.mark.usefixtures("small")
def test_a_version_that_restore_brought_back_stays_readable(uri: str, storage: DeltaRsStorage) -> None:
    """Its file was removed long ago, was added again, and is removed a second time."""
    _record_many(uri, storage, KEY, 30)
    DeltaTable(uri).restore(12)
    _record_many(uri, storage, KEY, 14)
    versions = sorted(int(path.stem) for path in Path(uri, "_delta_log").glob("*.json"))
    assert (versions[0], versions[-1]) == (20, 45)
    assert [DeltaTable(uri, version=version).to_pyarrow_table().num_rows for version in versions] == [1] * 26
    assert len(OffsetsTable(uri).history(KEY.consumer_group, 100).commits) == 26
    _record_many(uri, storage, KEY, 30)
    versions = sorted(int(path.stem) for path in Path(uri, "_delta_log").glob("*.json"))
    assert versions[0] > 31
    assert len(list(Path(uri).glob("consumerGroup=*/*.parquet"))) == len(versions) + 1  # none is left that nobody needs


@pytest.mark.usefixtures("small")
def test_a_run_that_slept_while_the_log_was_shortened_goes_on(uri: str, storage: DeltaRsStorage) -> None:
    sleeper = OffsetsTable(uri).open_run(GroupKey("sleeper", ["clicks"]), 1)
    sleeper.record(at({FIRST: 28}))
    _record_many(uri, storage, KEY, 65)
    assert not Path(uri, "_delta_log", f"{2:020}.json").exists()
    assert sleeper.record(at({FIRST: 28})) is False
    assert sleeper.record(at({FIRST: 56})) is True
    assert OffsetsTable(uri).positions("sleeper", ["clicks"]) == {FIRST: 56}
    assert OffsetsTable(uri).positions("clicks_etl", ["clicks"]) == {FIRST: 28 * 65}


def test_a_commit_writes_no_checkpoint_itself(
    uri: str, storage: DeltaRsStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    due: list[int] = []
    monkeypatch.setattr(Upkeep, "committed", lambda upkeep, before, after: due.append(after))
    _record_many(uri, storage, KEY, 101)
    assert due == list(range(1, 102))
    assert list(Path(uri, "_delta_log").glob("*checkpoint*")) == []


@pytest.mark.usefixtures("small")
def test_a_failing_upkeep_is_a_warning_and_tried_again(
    uri: str, storage: DeltaRsStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(storage: DeltaRsStorage, retention_hours: int | None) -> int:
        raise OffsetsTableError("could not clean up: no room")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(DeltaRsStorage, "maintain", fail)
        _record_many(uri, storage, KEY, 25)
    assert [record.getMessage() for record in caplog.records] == [
        "could not clean up the offsets table; commits continue, and the next try is after 10 commits:"
        " could not clean up: no room"
    ] * 2
    _record_many(uri, storage, KEY, 6)
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
    assert storage.upkeep.wait(0.01) is False
    release.set()
    assert storage.upkeep.wait(30)


_SHORT_LIFE = """
import sys
from offsets_store import GroupKey, OffsetsTable, PartitionProgress, upkeep
from tubeclient.keys import PartitionKey
upkeep.EVERY_COMMITS = 3
run = OffsetsTable(sys.argv[1]).open_run(GroupKey("g", ["t"]), 1)
for step in range(1, 4):
    run.record([PartitionProgress(PartitionKey(1, "t", 0), 28 * step)])
"""


def test_a_process_that_ends_right_after_a_commit_lets_the_upkeep_finish(uri: str) -> None:
    done = subprocess.run([sys.executable, "-c", _SHORT_LIFE, uri], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(Path(uri, "_delta_log", "_last_checkpoint").read_text())["version"] == 3
