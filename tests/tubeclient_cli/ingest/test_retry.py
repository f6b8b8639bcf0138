"""Bad records that a better parser reads: into the target once, wherever a retry ends and whatever comes after it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from spark_source.options.given import parse_options
from spark_source.typed.format_settings import FormatSettings
from spark_source.typed.record_format import RecordFormat
from tests.tubeclient_cli.ingest.lake import Lake, killed_at
from tubeclient.errors import ConfigurationError
from tubeclient_cli.bad_records.retry import retry_bad_records
from tubeclient_cli.ingest.batch_writer import Retried
from tubeclient_cli.ingest.dead_letters import LETTER_ID, DeadLetters, MissingDeadLetters
from tubeclient_cli.ingest.letter_states import RETRIED
from tubeclient_cli.ingest.settings import IngestSettings
from tubeclient_cli.ingest.sink import DeltaSink
from tubeclient_cli.ingest.target_columns import OtherColumns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(delta_spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(delta_spark, tmp_path)


def test_what_can_be_parsed_by_now_is_in_the_target_and_the_rest_stays(lake: Lake) -> None:
    lake.run(6, 6)
    lake.bad_by = (9,)
    assert lake.start().writer.retry(None, dry_run=True) == Retried(2, 2)
    assert (lake.bad(), lake.staged(), DeltaTable(str(lake.target)).version()) == ([0, 3, 6, 9], [], 1)
    assert lake.start().writer.retry("DIVISIBLE: 3") == Retried(1, 0)
    assert lake.start().writer.retry(None) == Retried(1, 2)
    assert (lake.bad(), lake.bad(RETRIED), lake.staged()) == ([0, 9], [3, 6], [])
    assert lake.repeated_or_missing(12) == {}
    version = DeltaTable(str(lake.target)).version()
    assert lake.start().writer.retry(None) == Retried(0, 2)
    # Nothing to move is no commit.
    assert DeltaTable(str(lake.target)).version() == version
    lake.run(6)
    assert lake.repeated_or_missing(18) == {}


def test_typed_rows_have_the_columns_that_a_job_gives_them(lake: Lake) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    schema = StructType([StructField("value", IntegerType())])
    lake.record_format = RecordFormat("json", schema)
    lake.run(4)
    assert (lake.good(), lake.bad()) == ([], [0, 1, 2, 3])
    lake.record_format = RecordFormat("csv", schema)
    assert lake.start().writer.retry(None) == Retried(4, 0)
    lake.run(2)
    assert lake.repeated_or_missing(6) == {}
    rows = DeltaTable(str(lake.target)).to_pyarrow_table().column("tubemq").to_pylist()
    assert {row["messageId"] for row in rows} == set(range(6))
    assert LETTER_ID not in rows[0]


def test_a_column_with_the_name_id_is_the_users(lake: Lake) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    schema = StructType([StructField("id", IntegerType())])
    lake.record_format = RecordFormat("json", schema)
    lake.run(4)
    lake.record_format = RecordFormat("csv", schema)
    assert lake.start().writer.retry(None) == Retried(4, 0)
    table = DeltaTable(str(lake.target)).to_pyarrow_table()
    assert (sorted(table.column("id").to_pylist()), table.column_names) == ([0, 1, 2, 3], ["id", "tubemq"])


def test_a_retry_keeps_to_its_jobs_topics_columns_and_table(lake: Lake, tmp_path: Path) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    lake.run(6)
    lake.bad_by = ()
    assert lake.start(topics=("views",)).writer.retry(None) == Retried(0, 0)
    lake.record_format = RecordFormat("csv", StructType([StructField("id", IntegerType())]))
    with pytest.raises(OtherColumns, match="lacks columns of the job's rows: id int"):
        lake.start().writer.retry(None)
    settings = IngestSettings(
        master_servers="127.0.0.1:8715",
        consumer_group="g",
        topics=("clicks",),
        target=str(lake.target),
        checkpoint="/c",
        bad_records=str(tmp_path / "typo"),
    )
    with pytest.raises(ConfigurationError, match=r"there is no dead-letter table at .*typo; check bad-records"):
        retry_bad_records(lake.spark, settings, None)
    assert not (tmp_path / "typo").exists()
    assert (lake.repeated_or_missing(6), lake.bad(), lake.staged()) == ({}, [0, 3], [])


def test_a_retry_adds_columns_where_its_job_may(lake: Lake) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    lake.record_format = RecordFormat("json", StructType([StructField("id", IntegerType())]))
    lake.run(2)
    settings = IngestSettings(
        master_servers="127.0.0.1:8715",
        consumer_group="g",
        topics=("clicks",),
        target=str(lake.target),
        checkpoint="/c",
        bad_records=str(lake.letters),
        evolve=True,
        records=FormatSettings(format="csv", schema="number INT"),
    )
    assert retry_bad_records(lake.spark, settings, None) == Retried(2, 0)
    found = DeltaTable(str(lake.target)).to_pyarrow_table().select(["id", "number"]).to_pylist()
    assert sorted(row["number"] for row in found if row["id"] is None) == [0, 1]


def test_after_a_restore_the_job_reads_again_before_a_retry_moves_anything(lake: Lake) -> None:
    lake.run(6, 6)
    lake.restore(0)
    lake.bad_by = ()
    with pytest.raises(ConfigurationError, match=r"RESTORE took commits .* Let the job write a batch first"):
        lake.start().writer.retry(None)
    lake.bad_by = (3,)
    lake.run(6)
    lake.bad_by = ()
    assert lake.start().writer.retry(None) == Retried(4, 0)
    assert lake.repeated_or_missing(12) == {}


def test_letters_that_were_removed_after_their_retry_stop_nothing(lake: Lake) -> None:
    lake.run(6)
    lake.bad_by = ()
    assert lake.start().writer.retry(None) == Retried(2, 0)
    DeltaTable(str(lake.letters)).delete("state = 'retried'")
    lake.run(6)
    assert (len(lake.good()), lake.bad()) == (12, [])


def test_letters_that_were_removed_before_they_are_marked_stop_nothing(lake: Lake) -> None:
    lake.run(6)
    lake.bad_by = ()
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.start().writer.retry(None))
    DeltaTable(str(lake.letters)).delete()
    lake.run()
    lake.run(6)
    assert (len(lake.good()), lake.bad(), lake.staged()) == (12, [], [])


def test_a_retry_whose_ids_are_gone_is_taken_back(lake: Lake) -> None:
    lake.run(6)
    lake.bad_by = ()
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.start().writer.retry(None))
    [folder] = lake.staged()
    shutil.rmtree(folder)
    for run in (lake.run, lambda: lake.start().writer.retry(None)):
        with pytest.raises(MissingDeadLetters, match=r"a retry moved 2 bad records .* RESTORE the target to version 0"):
            run()
    lake.restore(0)
    lake.run(6)
    assert lake.start().writer.retry(None) == Retried(2, 0)
    assert (lake.repeated_or_missing(12), lake.bad(RETRIED)) == ({}, [0, 3])


def test_states_are_changed_within_a_batch_of_spark_as_well(lake: Lake, tmp_path: Path) -> None:
    """Spark gives each batch a session of its own; the transactions are in the job's."""
    lake.run(6, 6)
    lake.bad_by = (2,)
    killed_at(DeltaSink, "append", after=True, run=lambda: lake.start().writer.retry(None))
    lake.restore(1)

    def settle(*_: object) -> None:
        lake.start()

    stream = lake.spark.readStream.format("delta").load(str(lake.target)).writeStream
    stream = stream.foreachBatch(settle).option("checkpointLocation", str(tmp_path / "c"))
    stream.trigger(availableNow=True).start().awaitTermination()
    assert (lake.repeated_or_missing(12), lake.bad(), lake.staged()) == ({}, [0, 3, 6, 9], [])
    letters, name = DeltaTable(str(lake.letters)), f"tubeclient:g:{lake.target_id()}"
    assert (letters.transaction_version(name), letters.transaction_version(f"{name}:states")) == (3, 3)
    assert lake.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


@pytest.mark.parametrize("goes_on", ["job", "retry"])
@pytest.mark.parametrize(
    ("place", "method"), [(DeadLetters, "stage_retried"), (DeltaSink, "append"), (DeadLetters, "publish")]
)
def test_a_retry_that_is_killed_is_finished(lake: Lake, place: type, method: str, goes_on: str) -> None:
    lake.run(6)
    lake.bad_by = (2,)
    killed_at(place, method, after=True, run=lambda: lake.start().writer.retry(None))
    if goes_on == "job":
        lake.run(6)
    else:
        lake.bad_by = (3,)
        lake.start().writer.retry(None)
    assert lake.repeated_or_missing(12 if goes_on == "job" else 6) == {}
    assert lake.bad(RETRIED) == ([] if method == "stage_retried" else [3])


def test_a_batch_is_written_on_top_of_a_retry_that_came_first(lake: Lake) -> None:
    lake.run(6)
    run = lake.start()
    real = DeadLetters.stage

    def stage(letters: DeadLetters, *arguments: Any) -> None:
        real(letters, *arguments)
        patched.undo()
        lake.bad_by = (2,)
        lake.start().writer.retry(None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DeadLetters, "stage", stage)
        run.write(lake, 6)
    assert (lake.repeated_or_missing(12), lake.bad(RETRIED), lake.bad()) == ({}, [3], [0, 6, 9])
    lake.run()
    assert lake.staged() == []


def test_of_two_retries_one_is_let_through(lake: Lake) -> None:
    lake.run(6)
    lake.bad_by = ()
    late = lake.start()
    real = DeadLetters.stage_retried

    def stage(letters: DeadLetters, *arguments: Any) -> None:
        real(letters, *arguments)
        patched.undo()
        lake.start().writer.retry(None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DeadLetters, "stage_retried", stage)
        # Its second try finds nothing left.
        assert late.writer.retry(None) == Retried(0, 0)
    assert (lake.repeated_or_missing(6), lake.bad(RETRIED)) == ({}, [0, 3])


def test_a_retry_that_restore_undid_is_bad_again(lake: Lake) -> None:
    lake.run(6)
    lake.bad_by = (2,)
    lake.start().writer.retry(None)
    lake.restore(0)
    lake.run()
    assert (lake.repeated_or_missing(6), lake.bad()) == ({}, [0, 3])
    lake.restore(1)
    lake.run()
    assert (lake.repeated_or_missing(6), lake.bad()) == ({}, [0])


def test_a_retry_of_old_letters_that_restore_undid_is_bad_again_where_the_history_is_cut(lake: Lake) -> None:
    lake.run(6)
    lake.cut_history()
    lake.bad_by = ()
    run = lake.run(1)
    version = DeltaTable(str(lake.target)).version()
    assert run.writer.retry(None) == Retried(2, 0)
    assert lake.bad(RETRIED) == [0, 3]
    lake.restore(version)
    lake.run()
    assert (lake.bad(RETRIED), lake.bad()) == ([], [0, 3])


def test_a_retry_keeps_to_the_streams_and_tags_that_its_job_reads(lake: Lake) -> None:
    lake.run(6)
    lake.spark.sql(
        f"UPDATE delta.`{lake.letters}` SET messageType = 'tag', inlongStreamId = 'views' WHERE messageId = 3"
    ).collect()
    letters = DeadLetters(lake.spark, str(lake.letters), "g")

    def chosen(**options: str) -> list[int]:
        read = {"masterServers": "h:1", "consumerGroup": "g", "subscribe": "clicks", **options}
        return sorted(row.messageId for row in letters.letters(lake.target_id(), parse_options(read), None).collect())

    assert chosen() == [0, 3]
    assert (chosen(payload="inlong", streams="views,more"), chosen(payload="inlong", streams="more")) == ([3], [])
    assert (chosen(filters='{"clicks": ["tag"]}'), chosen(filters='{"clicks": ["other"]}')) == ([3], [])


def test_messages_that_the_source_could_not_read_stay(lake: Lake) -> None:
    lake.unread = True
    lake.run(6)
    lake.bad_by = ()
    assert lake.start().writer.retry(None) == Retried(0, 0, unread=2)
    assert lake.start().writer.retry("no such reason") == Retried(0, 0)
    # Neither their stream nor their tag is known.
    some = {"payload": "inlong", "streams": "views"}
    assert lake.start(source_options=some, evolve=True).writer.retry(None) == Retried(0, 0, unread=2)
    tags = {"filters": '{"clicks": ["tag"]}'}
    assert lake.start(source_options=tags).writer.retry(None) == Retried(0, 0, unread=2)


def test_rows_that_others_removed_are_not_forgotten_by_a_retry(lake: Lake) -> None:
    lake.run(6)
    lake.spark.sql(f"DELETE FROM delta.`{lake.target}` WHERE messageId = 1").collect()
    lake.bad_by = ()
    with pytest.raises(ConfigurationError, match=r"\(DELETE\) removed rows .* Let the job write a batch first"):
        lake.start().writer.retry(None)


def test_a_target_without_the_group_is_told(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match="has no commit of group g"):
        lake.start().writer.retry(None)
