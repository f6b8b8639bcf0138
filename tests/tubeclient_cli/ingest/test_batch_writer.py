"""Each record is in one of target and dead letters, wherever a run ends and whatever comes after it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from spark_source.session_confs import session_confs
from tests.tubeclient_cli.ingest.lake import Lake, killed_at
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.bad_share import TooManyBadRecords
from tubeclient_cli.ingest.dead_letters import DeadLetters, MissingDeadLetters
from tubeclient_cli.ingest.letter_states import UNDONE
from tubeclient_cli.ingest.sink import DeltaSink, OvertakenRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(delta_spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(delta_spark, tmp_path)


def test_a_bad_record_is_kept_with_its_place_and_its_reason(lake: Lake) -> None:
    lake.run(4, 4)
    assert (lake.good(), lake.bad(), lake.staged()) == ([1, 2, 4, 5, 7], [0, 3, 6], [])
    [row] = [row for row in DeltaTable(str(lake.letters)).to_pyarrow_table().to_pylist() if row["value"] == b"6"]
    assert row.pop("id")
    assert {name: value for name, value in row.items() if value is not None and name != "time"} == {
        "consumerGroup": "g",
        "targetId": lake.target_id(),
        "sequence": 2,
        "queryId": "q",
        "batchId": 1,
        "state": "bad",
        "retries": [],
        "unread": False,
        "topic": "clicks",
        "partitionKey": "1:clicks:0",
        "messageId": 6,
        "value": b"6",
        "reason": "divisible: 6",
    }
    assert row["time"] is not None


BEFORE_THE_COMMIT = [(DeadLetters, "stage", False), (DeadLetters, "stage", True), (DeltaSink, "append", False)]
AFTER_THE_COMMIT = [(DeltaSink, "append", True), (DeadLetters, "publish", True), (DeadLetters, "remove", True)]
KILLS = [*BEFORE_THE_COMMIT, *AFTER_THE_COMMIT]


@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
@pytest.mark.parametrize(("place", "method", "after"), KILLS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_run_that_is_killed_anywhere_is_gone_on_from_with_another_parser(
    lake: Lake, place: type, method: str, after: bool, first: bool
) -> None:
    done = 0 if first else 6
    if not first:
        lake.run(6)
    killed_at(place, method, after=after, run=lambda: lake.run(6))
    lake.bad_by = (2,)
    lake.run(5)
    committed = (place, method, after) in AFTER_THE_COMMIT
    end = done + (6 if committed else 0) + 5
    assert lake.repeated_or_missing(end) == {}
    by_first = {n for n in range(done + 6) if n % 3 == 0} if committed else {n for n in range(done) if n % 3 == 0}
    assert {n for n in lake.bad() if n < end - 5} == by_first
    lake.run()
    assert lake.staged() == []


def test_vacuum_leaves_what_is_staged(lake: Lake) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    with session_confs(lake.spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        lake.spark.sql(f"VACUUM delta.`{lake.letters}` RETAIN 0 HOURS").collect()
    DeltaTable(str(lake.letters)).vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert lake.bad() == []
    lake.run()
    assert lake.repeated_or_missing(6) == {}


def test_batches_of_good_and_of_bad_records_alone(lake: Lake) -> None:
    lake.bad_by = (1,)
    lake.run(3)
    assert (lake.good(), lake.bad()) == ([], [0, 1, 2])
    lake.bad_by = ()
    lake.run(3)
    assert (lake.good(), lake.bad(), lake.staged()) == ([3, 4, 5], [0, 1, 2], [])


def test_a_batch_with_too_many_is_not_written(lake: Lake) -> None:
    run = lake.start(max_bad_records="40%")
    run.write(lake, 6)
    lake.bad_by = (2,)
    with pytest.raises(
        TooManyBadRecords,
        match=r"3 of 6 records of batch 1 are bad, and max-bad-records is 40%; nothing .* message 6 of partition "
        r"1:clicks:0: divisible: 6\. .*raise max-bad-records",
    ):
        lake.run(6, max_bad_records="40%")
    assert (lake.good(), lake.bad(), lake.staged()) == ([1, 2, 4, 5], [0, 3], [])
    lake.run(6, max_bad_records="3")
    assert lake.repeated_or_missing(12) == {}


def test_a_run_without_the_option_publishes_what_the_last_one_staged(lake: Lake) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    # Its records are as the source gives them.
    lake.run(6, bad_records=None)
    assert (lake.repeated_or_missing(12), lake.bad(), lake.staged()) == ({}, [0, 3], [])
    # After a RESTORE too it tells the table that the commits name.
    lake.run(6)
    lake.restore(0)
    lake.run(6, bad_records=None)
    assert (lake.repeated_or_missing(12), lake.bad(), lake.bad(UNDONE)) == ({}, [0, 3], [12, 15])


def test_another_table_gets_the_later_ones_alone(lake: Lake, tmp_path: Path) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    lake.run(3, bad_records=str(tmp_path / "second"))
    assert lake.bad() == [0, 3]
    lake.letters = tmp_path / "second"
    assert lake.bad() == [6]


def test_a_table_that_was_moved_is_found_where_the_user_says(lake: Lake, tmp_path: Path) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    lake.letters = lake.letters.rename(tmp_path / "moved")
    lake.run(3)
    assert lake.repeated_or_missing(9) == {}


def test_staged_records_that_are_gone_are_for_the_user_to_judge(lake: Lake) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    [folder] = lake.staged()
    shutil.rmtree(folder)
    for settings in ({}, {"bad_records": None}):
        with pytest.raises(MissingDeadLetters, match=r"had 2 bad records, which are neither .* RESTORE .* target"):
            lake.run(3, **settings)
    lake.run(3, starting_offsets="target")
    lake.run(3)
    assert lake.repeated_or_missing(12) == {0: 0, 3: 0}


def test_staged_records_are_found_without_hadoops_mark_of_success(lake: Lake) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    [folder] = lake.staged()
    (folder / "_SUCCESS").unlink()
    lake.run(3)
    assert lake.repeated_or_missing(9) == {}


def test_a_path_may_have_characters_of_patterns(delta_spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(delta_spark, tmp_path / "a[b]{c}")
    lake.run(6)
    assert lake.repeated_or_missing(6) == {}


def test_a_commit_that_the_history_lost_is_for_the_user_to_judge(lake: Lake, tmp_path: Path) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    [folder] = lake.staged()
    lake.cut_history()
    with pytest.raises(MissingDeadLetters, match=rf"no longer has commit 1 of group g, .*{folder.name}"):
        lake.start()
    folder.rename(tmp_path / "kept")
    lake.start()


def test_half_of_a_staged_folder_is_not_taken_for_the_whole(lake: Lake) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    [folder] = lake.staged()
    next(folder.glob("part-*")).unlink()
    with pytest.raises(MissingDeadLetters, match=r"has 1 of the 2 bad records"):
        lake.run(3)
    assert lake.bad() == []


def test_of_two_runs_the_one_that_loses_publishes_nothing(lake: Lake) -> None:
    lake.run(6)
    late = lake.start()
    lake.bad_by = (2,)
    real = DeadLetters.stage

    def stage(letters: DeadLetters, *arguments: Any) -> None:
        real(letters, *arguments)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(DeadLetters, "stage", real)
            lake.run(4)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DeadLetters, "stage", stage)
        with pytest.raises(OvertakenRun):
            late.write(lake, 6)
    assert lake.repeated_or_missing(10) == {}
    assert len(lake.staged()) == 1
    lake.run(2)
    assert lake.repeated_or_missing(12) == {}
    assert lake.staged() == []


@pytest.mark.parametrize("method", ["publish", "_publish"])
def test_two_runs_that_publish_the_same_do_it_once(lake: Lake, method: str) -> None:
    """One stood still between its commit and this, or after its look at the table; the next has begun meanwhile."""
    real = getattr(DeadLetters, method)

    def publish(letters: DeadLetters, *arguments: Any, **more: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(DeadLetters, method, real)
            lake.run(6)
        real(letters, *arguments, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DeadLetters, method, publish)
        lake.run(6)
    assert lake.repeated_or_missing(12) == {}


def test_a_run_that_still_stages_does_not_lose_its_folder_to_another(lake: Lake) -> None:
    lake.run(6)
    slow = lake.start()
    real = DeadLetters.stage

    def stage(letters: DeadLetters, *arguments: Any) -> None:
        real(letters, *arguments)
        lake.start()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DeadLetters, "stage", stage)
        slow.write(lake, 6)
    assert lake.repeated_or_missing(12) == {}


def test_groups_and_targets_share_a_table(lake: Lake, tmp_path: Path) -> None:
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.run(6))
    other = Lake(lake.spark, tmp_path / "other")
    other.letters = lake.letters
    killed_at(DeadLetters, "stage", after=True, run=lambda: other.run(6))
    lake.run(6)
    assert len(lake.staged()) == 1
    assert lake.repeated_or_missing(12) == {}
    other.run(3)
    assert lake.bad() == [0, 0, 3, 6, 9]


def test_a_target_that_was_made_anew_keeps_the_old_ones_letters(lake: Lake) -> None:
    lake.run(6)
    shutil.rmtree(lake.target)
    lake.run(6)
    assert lake.bad() == [0, 0, 3, 3]


def test_a_table_of_something_else_is_refused(lake: Lake) -> None:
    lake.spark.range(1).write.format("delta").save(str(lake.letters))
    with pytest.raises(ConfigurationError, match=r"is not a table of bad records: it has no column consumerGroup"):
        lake.start()


def test_a_target_that_forgets_transactions_is_not_taken_for_one_without_rows(lake: Lake) -> None:
    lake.run(4)
    DeltaTable(str(lake.target)).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 0 days"}
    )
    lake.cut_history()
    state = lake.start().sink.look()
    assert (state.record, state.is_whole) == (None, False)


@pytest.mark.parametrize(
    "wrong", [{"delta.appendOnly": "true"}, {"delta.setTransactionRetentionDuration": "interval 1 days"}]
)
def test_a_table_whose_properties_contradict_the_promise_is_refused_before_a_batch(
    lake: Lake, wrong: dict[str, str]
) -> None:
    run = lake.run(4)
    DeltaTable(str(lake.letters)).alter.set_table_properties(wrong)
    [name] = wrong
    for create in (True, False):
        with pytest.raises(ConfigurationError, match=rf"has the property {name}, .* UNSET TBLPROPERTIES"):
            run.writer.open(create=create)
    lake.spark.sql(f"ALTER TABLE delta.`{lake.letters}` UNSET TBLPROPERTIES ('{name}')")
    lake.run(4)
    assert lake.repeated_or_missing(8) == {}
