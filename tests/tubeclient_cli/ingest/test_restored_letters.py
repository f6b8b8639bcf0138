"""Which bad records count after a RESTORE of the target, whoever looks at it and when."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_source.session_confs import session_confs
from tests.tubeclient_cli.ingest.lake import Lake, killed_at, wrong
from tests.waiting import wait_for
from tubeclient_cli.ingest import dead_letters
from tubeclient_cli.ingest.batch_writer import Retried
from tubeclient_cli.ingest.dead_letters import DeadLetters
from tubeclient_cli.ingest.letter_states import RETRIED, UNDONE, Judgement, judgement
from tubeclient_cli.ingest.sink import DeltaSink
from tubeclient_cli.ingest.sink_history import SinkState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(delta_spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(delta_spark, tmp_path)


def test_each_table_that_the_group_has_had_is_told_of_a_restore(lake: Lake, tmp_path: Path) -> None:
    tables = [tmp_path / name for name in ("first", "second", "third")]
    for size, table in zip((2, 4, 3), tables, strict=True):
        lake.run(size, bad_records=str(table))
    lake.run(3, bad_records=str(tables[2]))
    lake.bad_by = ()
    lake.start(bad_records=str(tables[2])).writer.retry(None)
    lake.bad_by = (3,)
    lake.restore(0)
    lake.run(10, bad_records=str(tables[2]))
    found, undone = lake.good(), {}
    for lake.letters in tables:
        found += lake.bad()
        undone[lake.letters.name] = lake.bad(UNDONE)
    assert wrong(found, 12) == {}
    assert undone == {"first": [], "second": [3], "third": [6, 9]}


def test_after_a_restore_nobody_asks_for_records_that_are_read_again(lake: Lake) -> None:
    lake.run(2)
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    [folder] = lake.staged()
    shutil.rmtree(folder)
    lake.restore(0)
    lake.run(6)
    assert lake.repeated_or_missing(8) == {}


@pytest.mark.parametrize("retried", [False, True])
def test_what_is_published_only_after_its_restore_does_not_count(lake: Lake, tmp_path: Path, retried: bool) -> None:
    """Nor for a run that finds the states as they should be, because its folder was not there."""
    lake.run(6)
    lake.bad_by = () if retried else (3,)
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.start().writer.retry(None) if retried else lake.run(6))
    [folder] = lake.staged()
    away = folder.rename(tmp_path / "away")
    lake.restore(0)
    lake.start()
    away.rename(folder)
    lake.start()
    assert (lake.bad(), lake.bad(UNDONE), lake.staged()) == ([0, 3], [] if retried else [6, 9], [])
    lake.restore(1)
    lake.run()
    assert lake.repeated_or_missing(6 if retried else 12) == {}


@pytest.mark.parametrize("differs", ["group", "target"])
def test_groups_and_targets_keep_to_their_own_bad_records(lake: Lake, tmp_path: Path, differs: str) -> None:
    other = Lake(lake.spark, tmp_path / ("other" if differs == "target" else ""))
    other.group, other.letters = ("h" if differs == "group" else "g"), lake.letters
    lake.run(6, 6)
    other.run(6, 6)
    # Of the first one's batches it leaves all where they share the target.
    other.restore(1 if differs == "group" else 0)
    other.start()
    undone = [0, 3, 6, 9] if differs == "group" else [6, 9]
    assert lake.bad(UNDONE) == undone
    lake.bad_by = ()
    assert lake.start().writer.retry(None) == Retried(4, 0)
    assert (lake.bad(RETRIED), lake.bad(UNDONE)) == ([0, 3, 6, 9], undone)


def test_what_restore_takes_out_of_the_target_does_not_count_and_what_it_brings_back_does(lake: Lake) -> None:
    lake.run(6, 6, 6)
    lake.restore(0)
    lake.bad_by = (2,)
    lake.run(4)
    assert (lake.repeated_or_missing(10), lake.bad(UNDONE)) == ({}, [6, 9, 12, 15])
    # Back to the branch that was left, past the commit on the other one.
    lake.restore(2)
    lake.bad_by = (5,)
    lake.run(3)
    assert (lake.repeated_or_missing(21), lake.bad(UNDONE)) == ({}, [6, 8])
    # And to the other again.
    lake.restore(4)
    lake.run()
    assert (lake.repeated_or_missing(10), lake.bad(UNDONE)) == ({}, [6, 9, 12, 15, 20])
    # To before all of it, by a run that goes on meanwhile.
    run = lake.start()
    lake.restore(0)
    run.write(lake, 6)
    assert lake.repeated_or_missing(12) == {}


def test_a_run_that_looked_before_a_restore_overrules_nobody(lake: Lake) -> None:
    lake.run(6, 6)
    real = DeadLetters.mark

    def late(after: Callable[[], object]) -> None:
        """Start a run that looks at the target, and changes states only once `after` is done."""

        def mark(*arguments: Any) -> None:
            patched.undo()
            after()
            real(*arguments)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(DeadLetters, "mark", mark)
            lake.start()

    def restore_and_run(version: int, *sizes: int) -> None:
        lake.restore(version)
        lake.run(*sizes)

    late(lambda: restore_and_run(0, 6))
    assert (lake.repeated_or_missing(12), lake.bad(UNDONE)) == ({}, [6, 9])
    # From one RESTORE to one that brings all back: nothing changes for a run that looks only now.
    lake.restore(0)
    late(lambda: restore_and_run(3))
    assert (lake.repeated_or_missing(12), lake.bad(UNDONE)) == ({}, [6, 9])


ONE_FILE_A_TASK = {"spark.sql.files.maxPartitionBytes": "8000"}
"""Where a task reads several files, Delta's UPDATE does not know which of them a row that Python judges is from."""


def held_up(gate: Path) -> bool:
    """True, once there is a file `gate`."""
    gate.with_suffix(".reached").touch()
    wait_for(gate.exists, "the other's change", seconds=120)
    return True


def test_groups_that_change_a_table_at_once_do_it_one_after_the_other(lake: Lake, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    other = Lake(lake.spark.newSession(), tmp_path / "other")
    other.letters = lake.letters
    # One row is wrong, and so one task waits.
    lake.run(6, 3)
    other.run(6, 6)
    for one in (lake, other):
        one.restore(0)
    overtaken: list[SinkState] = []
    gate = tmp_path / "gate"
    held = F.udf(lambda _: held_up(gate), "boolean")

    def judged(state: SinkState) -> Judgement | None:
        """Whoever looks at the rows waits until the other has changed its own, the first time."""
        right = judgement(state)
        if overtaken or right is None:
            return right
        overtaken.append(state)
        return right._replace(is_known=right.is_known & held(F.col("sequence")))

    with pytest.MonkeyPatch.context() as patched, session_confs(lake.spark, ONE_FILE_A_TASK):
        patched.setattr(dead_letters, "judgement", judged)
        thread = threading.Thread(target=lake.start)
        thread.start()
        wait_for(gate.with_suffix(".reached").exists, "the change to be under way", seconds=120)
        other.start()
        gate.touch()
        thread.join(120)
    assert (len(overtaken), lake.bad(UNDONE)) == (1, [6, 6, 9])


def test_a_batch_that_restore_undid_before_it_was_published_can_come_back(lake: Lake) -> None:
    lake.run(6)
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    lake.restore(0)
    killed_at(DeadLetters, "mark", after=False, run=lambda: lake.run())
    lake.run(3)
    assert lake.repeated_or_missing(9) == {}
    lake.restore(1)
    lake.run()
    assert lake.repeated_or_missing(12) == {}
