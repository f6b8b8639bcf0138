"""Bad records that a better parser reads: into the target once, wherever a retry ends and whatever comes after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_source.typed.record_format import RecordFormat
from tests.tubeclient_ingest.lake import Lake, killed_at
from tubeclient.errors import ConfigurationError
from tubeclient.records import RecordSpec
from tubeclient_ingest.commits.history import BAD, RETRIED
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.rounds import retrying
from tubeclient_ingest.rounds.bad_records import BAD_ID, BadRecords
from tubeclient_ingest.rounds.retrying import Retried, retry
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.tables.target_columns import OtherColumns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(delta_spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(delta_spark, tmp_path)


def test_records_that_parse_now(lake: Lake) -> None:
    """A retry moves the records that parse now and leaves the others bad."""
    lake.run(6, 6)
    lake.bad_by = (9,)
    assert retry(lake.start().writer, None, dry_run=True) == Retried(2, 2)
    assert (lake.bad(), DeltaTable(str(lake.target)).version()) == ([0, 3, 6, 9], 2)
    assert retry(lake.start().writer, "DIVISIBLE: 3") == Retried(1, 0)
    assert retry(lake.start().writer, None) == Retried(1, 2)
    assert (lake.bad(), lake.bad(RETRIED)) == ([0, 9], [3, 6])
    assert lake.repeated_or_missing(12) == {}
    version = DeltaTable(str(lake.target)).version()
    assert retry(lake.start().writer, None) == Retried(0, 2)
    # Nothing to move is no commit.
    assert DeltaTable(str(lake.target)).version() == version
    lake.run(6)
    assert lake.repeated_or_missing(18) == {}


def test_columns_of_retried_rows(lake: Lake) -> None:
    """Rows that a retry moves have the columns that the job gives its rows."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    schema = StructType([StructField("value", IntegerType())])
    lake.record_format = RecordFormat.of(schema, RecordSpec(kind="json", schema=pa.schema([])))
    lake.run(4)
    assert (lake.good(), lake.bad()) == ([], [0, 1, 2, 3])
    lake.record_format = RecordFormat.of(schema, RecordSpec(kind="csv", schema=pa.schema([])))
    assert retry(lake.start().writer, None) == Retried(4, 0)
    lake.run(2)
    assert lake.repeated_or_missing(6) == {}
    rows = DeltaTable(str(lake.target)).to_pyarrow_table().column("tubemq").to_pylist()
    assert {row["messageId"] for row in rows} == set(range(6))
    assert BAD_ID not in rows[0]


def test_limits_of_a_retry(lake: Lake, tmp_path: Path) -> None:
    """A retry moves only its job's topics, and refuses other columns and a missing table."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    lake.run(6)
    lake.bad_by = ()
    assert retry(lake.start(topics=("views",)).writer, None) == Retried(0, 0)
    lake.record_format = RecordFormat.of(
        StructType([StructField("id", IntegerType())]), RecordSpec(kind="csv", schema=pa.schema([]))
    )
    with pytest.raises(OtherColumns, match="lacks columns of the job's rows: id int"):
        retry(lake.start().writer, None)
    job = Ingest(lake.spark, settings=lake.settings(bad_records=str(tmp_path / "typo")))
    with pytest.raises(ConfigurationError, match=r"there is no table of bad records at .*typo`; check bad-records"):
        job.retry()
    assert not (tmp_path / "typo").exists()
    lake.record_format = None
    assert (lake.repeated_or_missing(6), lake.bad()) == ({}, [0, 3])


def test_retry_after_a_restore(lake: Lake) -> None:
    """After a RESTORE a retry moves nothing until the job writes a round."""
    lake.run(6, 6)
    lake.restore(1)
    lake.bad_by = ()
    with pytest.raises(ConfigurationError, match=r"RESTORE removed commits .* Let the job write a round first"):
        retry(lake.start().writer, None)
    lake.bad_by = (3,)
    lake.run(6)
    lake.bad_by = ()
    assert retry(lake.start().writer, None) == Retried(4, 0)
    assert lake.repeated_or_missing(12) == {}


@pytest.mark.merge("marks-job]")
@pytest.mark.parametrize("goes_on", ["job", "retry"])
@pytest.mark.parametrize(
    ("place", "method", "after"), [(BadRecords, "add_marks", True), (Sink, "append", True)], ids=["marks", "all"]
)
def test_killed_retry(lake: Lake, place: type, method: str, after: bool, goes_on: str) -> None:
    """Or all, if it had its commit."""
    lake.run(6)
    lake.bad_by = (2,)
    killed_at(place, method, after=after, run=lambda: retry(lake.start().writer, None))
    moved = [3] if place is Sink else []
    assert lake.bad(RETRIED) == moved
    if goes_on == "job":
        lake.run(6)
    else:
        assert retry(lake.start().writer, None) == Retried(1 - len(moved), 1)
        moved = [3]
    states = lake.states()
    assert lake.repeated_or_missing(12 if goes_on == "job" else 6, states[BAD]) == {}
    assert states[RETRIED] == moved


def test_round_after_a_concurrent_retry(lake: Lake) -> None:
    """A round commits on top of a retry that came first, and no record is lost."""
    lake.run(6)
    run = lake.start()
    add = BadRecords.add

    def late(table: BadRecords, *given: Any) -> None:
        add(table, *given)
        patched.undo()
        lake.bad_by = (2,)
        retry(lake.start().writer, None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BadRecords, "add", late)
        run.write(lake, 6)
    assert (lake.repeated_or_missing(12), lake.bad(RETRIED), lake.bad()) == ({}, [3], [0, 6, 9])


@pytest.mark.parametrize("when", ["count", "add_marks"])
def test_rounds_overtake_a_retry(lake: Lake, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it reads them, or when it is about to mark them. Rounds that confirm bad records do not look at older
    numbers again."""
    lake.run(6)
    run = lake.start()
    place = retrying if when == "count" else BadRecords
    real = getattr(place, when)

    def late(*given: Any, **named: Any) -> Any:
        for _ in range(3):
            run.write(lake, 1)
            run.writer.confirm(run.writer.sink.read_state())
        return real(*given, **named)

    lake.bad_by = ()
    retried = lake.start().writer
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(place, when, late)
        with pytest.raises(ConfigurationError, match="nothing was moved"):
            retry(retried, None)
    lake.bad_by = (3,)
    sent = max((*lake.good(), *lake.bad())) + 1
    assert (lake.repeated_or_missing(sent), lake.bad(RETRIED)) == ({}, [])


def test_of_two_retries_one_is_let_through(lake: Lake) -> None:
    lake.run(6)
    lake.bad_by = ()
    late = lake.start()
    add_marks = BadRecords.add_marks

    def other_first(table: BadRecords, *given: Any) -> None:
        add_marks(table, *given)
        patched.undo()
        assert retry(lake.start().writer, None) == Retried(2, 0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BadRecords, "add_marks", other_first)
        assert retry(late.writer, None) == Retried(0, 0)
    assert (lake.repeated_or_missing(6), lake.bad(RETRIED)) == ({}, [0, 3])


def test_a_retry_that_restore_undid_is_bad_again(lake: Lake) -> None:
    lake.run(6)
    lake.bad_by = (2,)
    retry(lake.start().writer, None)
    lake.restore(1)
    lake.run()
    assert (lake.repeated_or_missing(6), lake.bad()) == ({}, [0, 3])
    lake.restore(2)
    lake.run()
    assert (lake.repeated_or_missing(6), lake.bad()) == ({}, [0])


def test_messages_that_the_source_could_not_read_stay(lake: Lake) -> None:
    lake.unread = True
    lake.run(6)
    lake.bad_by = ()
    assert retry(lake.start().writer, None) == Retried(0, 0, unread=2)
    assert retry(lake.start().writer, "no such reason") == Retried(0, 0)
