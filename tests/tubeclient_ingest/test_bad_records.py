"""Each record is in one of the target and the table of bad records, wherever a run ends and whatever comes after it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from spark_source.offsets.offsets import Offsets
from tests.tubeclient_ingest.bench import Bench
from tests.tubeclient_ingest.lake import Killed, Lake, cut_history, killed_at, wrong
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.commits.beginning import OvertakenRun
from tubeclient_ingest.commits.history import RETRIED, UNDONE
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.bad_records import Attempt, BadRecords
from tubeclient_ingest.rounds.retrying import Retried, bad_records, retry
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.rounds.writing import TooManyBadRecords
from tubeclient_ingest.tables.spark_table import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_NO_INLONG = b"\0\0\0\x63k="
"""Says that 99 bytes of attributes follow."""


@pytest.fixture
def lake(delta_spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(delta_spark, tmp_path)


def send(bench: Bench, good: int, bad: int) -> None:
    bench.send(good)
    numbers = range(bench.sent, bench.sent + bad)
    bench.tube.load("clicks", [NewMessage(10_000 * (n % 2), _NO_INLONG + b"%d" % n, 1) for n in numbers])
    bench.sent += bad


def kept(bench: Bench) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(bench.folder / "bad")).to_pyarrow_table().to_pylist()
    return rows


def test_bad_messages_are_in_their_table_and_counted(bench: Bench) -> None:
    bad_records = str(bench.folder / "bad")
    send(bench, 20, 4)
    rounds = bench.run(bad_records=bad_records)
    assert [(one.rows, one.bad_rows, one.total_bad_rows) for one in rounds] == [(20, 4, 4)]
    send(bench, 10, 0)
    assert [(one.rows, one.total_bad_rows) for one in bench.run(bad_records=bad_records)] == [(10, 0)]
    values = DeltaTable(bench.settings.target).to_pyarrow_table().column("value").to_pylist()
    numbers = [int(row["value"].removeprefix(_NO_INLONG)) for row in kept(bench)]
    assert wrong([*map(int, values), *numbers], 34) == {}
    assert {(row["sequence"], row["topic"]) for row in kept(bench)} == {(2, "clicks")}
    assert all("attributes" in row["reason"] for row in kept(bench))


def test_settling_adds_only_marks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settling records each commit's number once, and all bad records still count as bad."""
    monkeypatch.setattr("tubeclient_ingest.rounds.writing._UNCONFIRMED_COMMITS", 2)
    place = str(bench.folder / "bad")
    for _ in range(4):
        send(bench, 2, 1)
        bench.run(bad_records=place)
    confirmed = sorted((row["sequence"], row["reason"]) for row in kept(bench) if row["id"] is row["retryOf"] is None)
    assert confirmed == [(2, None), (3, None), (4, None)]
    found = bench.job(bad_records=place).bad_records()
    assert "isConfirmed" not in found.columns
    assert [(row.sequence, row.state) for row in found.orderBy("sequence").collect()] == [
        (number, "bad") for number in range(2, 6)
    ]


@pytest.mark.merge
def test_max_bad_records_exceeded(bench: Bench) -> None:
    """The job fails and writes nothing if a round has more bad records than max-bad-records."""
    bad_records = str(bench.folder / "bad")
    send(bench, 19, 2)
    with pytest.raises(TooManyBadRecords, match=r"2 of 21 records of the round are bad, but max-bad-records is 1"):
        bench.run(bad_records=bad_records, max_bad_records=1)
    assert DeltaTable(bench.settings.target).count() == 0
    assert kept(bench) == []
    assert bench.rows(bad_records=bad_records, max_bad_records=2) == 19


def test_columns_of_a_bad_record(lake: Lake) -> None:
    """A bad record has its place, its reason, its run, and its value in its table."""
    run = lake.run(4, 4)
    assert (lake.good(), lake.bad()) == ([1, 2, 4, 5, 7], [0, 3, 6])
    [row] = [row for row in lake.rows_of_bad() if row["value"] == b"6"]
    assert row.pop("id")
    assert row.pop("target").endswith(str(lake.target))
    assert {name: value for name, value in row.items() if value is not None and name != "time"} == {
        "consumerGroup": "g",
        "targetId": lake.target_id(),
        "sequence": 2,
        "runId": run.run_id,
        "unread": False,
        "topic": "clicks",
        "partitionKey": "1:clicks:0",
        "messageId": 6,
        "value": b"6",
        "reason": "divisible: 6",
    }
    assert row["time"] is not None


@pytest.mark.parametrize("first", [True, False], ids=["first round", "later round"])
@pytest.mark.parametrize(
    ("place", "method", "after"),
    [(BadRecords, "add", False), (BadRecords, "add", True), (Sink, "append", True)],
    ids=["before", "between", "after"],
)
def test_killed_run_resumed_with_another_parser(lake: Lake, place: type, method: str, after: bool, first: bool) -> None:
    """Each record is in one table once if a run dies anywhere and the next one parses differently."""
    done = 0 if first else 6
    if not first:
        lake.run(6)
    killed_at(place, method, after=after, run=lambda: lake.run(6))
    lake.bad_by = (2,)
    lake.run(5)
    committed = place is Sink
    end = done + (6 if committed else 0) + 5
    assert lake.repeated_or_missing(end) == {}
    by_first = {n for n in range(done + (6 if committed else 0)) if n % 3 == 0}
    assert {n for n in lake.bad() if n < end - 5} == by_first
    # What no commit stands for goes at the next start.
    lake.run()
    assert len(lake.rows_of_bad()) == len(lake.bad())
    assert lake.repeated_or_missing(end) == {}


def test_bad_rows_of_a_long_dead_run(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad rows of a run that died before its commit never count, even many commits later."""
    monkeypatch.setattr("tubeclient_ingest.rounds.sink._HISTORY_STEPS", (2, 1_000))
    lake.run(6)
    killed_at(BadRecords, "add", after=True, run=lambda: lake.run(6))
    writer = lake.run(6, 1, 1, 1).writer
    assert sorted(int(row.value) for row in bad_records(writer).where("state = 'bad'").collect()) == [0, 3, 6, 9, 12]
    writer.confirm(writer.sink.read_state())
    assert len(lake.rows_of_bad()) == 5
    assert lake.repeated_or_missing(15) == {}


def test_bad_rows_written_after_being_overtaken(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad rows never count if an overtaken run writes them many commits later."""
    monkeypatch.setattr("tubeclient_ingest.rounds.sink._HISTORY_STEPS", (2, 1_000))
    lake.run(6)
    late = lake.start()
    add = BadRecords.add

    def stands_still(table: BadRecords, *given: Any) -> None:
        patched.undo()
        lake.run(1, 1, 1)
        lake.run(1)
        add(table, *given)
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BadRecords, "add", stands_still)
        with pytest.raises(Killed):
            late.write(lake, 6)
    assert len(lake.rows_of_bad()) == 6
    assert lake.bad() == [0, 3, 6, 9]
    assert len(lake.rows_of_bad()) == 4
    assert lake.repeated_or_missing(10) == {}


def test_new_table_inherits_no_confirmed_commits(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table made in place of a removed one does not inherit which commits are confirmed."""
    run = lake.run(6, 6, 6)
    run.writer.confirm(run.writer.sink.read_state())
    shutil.rmtree(lake.target)
    run.writer.open()
    killed_at(BadRecords, "add", after=True, run=lambda: run.write(lake, 6))
    lake.run(6)
    assert len(lake.bad()) == 2


@pytest.mark.parametrize("how", ["", "confirmed", "confirmed, elsewhere"])
def test_target_replaced_by_an_older_copy(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Each record is in one table once if an older copy of the folder replaces the target."""
    monkeypatch.setattr("tubeclient_ingest.rounds.sink._HISTORY_STEPS", (2, 1_000))
    monkeypatch.setattr("tubeclient_ingest.rounds.writing._UNCONFIRMED_COMMITS", 0 if how else 100)
    lake.run(6)
    shutil.copytree(lake.target, tmp_path / "copy")
    run = lake.run(6, 6, 6)
    run.writer.confirm(run.writer.sink.read_state())
    shutil.rmtree(lake.target)
    if how == "confirmed, elsewhere":
        lake.target = tmp_path / "copy"
        table = f"delta.`{lake.target}`"
        lake.spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT * FROM {table}")
    else:
        shutil.move(tmp_path / "copy", lake.target)
    lake.spark.catalog.refreshByPath(str(lake.target))
    with pytest.raises(ConfigurationError, match="is an older copy, and lacks commits of group g"):
        retry(lake.start().writer, None)
    lake.run(12, 1, 1, 1)
    assert lake.bad() == [0, 3, 6, 9, 12, 15, 18]
    assert lake.repeated_or_missing(21) == {}


def test_late_bad_rows_during_a_query(lake: Lake) -> None:
    """Bad rows that an overtaken run adds during a query of the bad records do not count."""
    lake.run(6)
    late = lake.start()
    add, with_states = BadRecords.add, BadRecords.with_states
    found: list[int] = []

    def stands_still(table: BadRecords, *given: Any) -> None:
        def after_it(other: BadRecords, *looked: Any) -> DataFrame:
            add(table, *given)
            return with_states(other, *looked)

        patched.undo()
        lake.bad_by = (5,)
        run = lake.run(6, 1, 1)
        patched.setattr(BadRecords, "with_states", after_it)
        found.extend(int(row.value) for row in bad_records(run.writer).where("state = 'bad'").collect())
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BadRecords, "add", stands_still)
        with pytest.raises(Killed):
            late.write(lake, 6)
    assert len(lake.rows_of_bad()) == 5
    assert sorted(found) == [0, 3, 10]


def test_other_table_as_bad_records(lake: Lake) -> None:
    """A job whose bad-records is a table of something else is refused and writes nothing."""
    lake.run(6)
    lake.spark.sql(f"CREATE TABLE delta.`{lake.target}2` (id BIGINT) USING delta").collect()
    with pytest.raises(ConfigurationError, match=r"target2` is not a table of bad records: it has no column consumer"):
        lake.start(bad_records=f"{lake.target}2")
    assert lake.spark.table(f"delta.`{lake.target}2`").count() == 0


def test_confirmed_commits_by_table_id(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirmed commits of a table do not confirm the same numbers of the table it was before."""
    monkeypatch.setattr("tubeclient_ingest.rounds.writing._UNCONFIRMED_COMMITS", 0)
    writer = lake.run(6, 6, 6).writer
    writer.confirm(writer.sink.read_state())
    table = writer.bad_records
    assert table is not None
    former = writer.detail._replace(table_id="former")
    table.add(writer.record_format.parse(lake.records(0, 1)), SinkRecord("g", "r", Offsets({}), 2), former)
    ids = (lake.target_id(), "former")
    assert table.last_numbers((), writer.detail) == table.last_numbers(ids, writer.detail) == (3, 3)
    assert table.unconfirmed(ids) == {Attempt("former", 2, "r")}
    table.confirm({Attempt("former", 2, "r")}, writer.detail)
    assert table.unconfirmed(ids) == set()


def test_retry_right_after_a_rounds_commit(lake: Lake) -> None:
    """No record is lost or doubled if a retry commits between a round's commit and its check."""
    lake.run(6)
    run = lake.start()
    append = SparkTable.append

    def then_retry(table: SparkTable, rows: Any, record: SinkRecord | None = None, **more: Any) -> None:
        append(table, rows, record, **more)
        if record is None:
            return  # the bad ones, which come first
        patched.undo()
        lake.bad_by = (6,)
        assert retry(lake.start().writer, None).moved == 2

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SparkTable, "append", then_retry)
        run.write(lake, 6)
    run.write(lake, 3)
    assert lake.bad() == [0, 6, 12]
    assert lake.repeated_or_missing(15) == {}


def test_losing_run_leaves_no_counted_bad_rows(lake: Lake) -> None:
    """Of two runs that write at once, the one that loses leaves no bad records that count."""
    lake.run(6)
    first = lake.start()
    add = BadRecords.add

    def slow(table: BadRecords, *given: Any) -> None:
        add(table, *given)
        patched.undo()
        lake.bad_by = (2,)
        lake.run(5)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BadRecords, "add", slow)
        with pytest.raises(OvertakenRun):
            first.write(lake, 6)
    bad = lake.bad()
    assert lake.repeated_or_missing(11, bad) == {}
    assert bad == [0, 3, 6, 8, 10]


def test_bad_records_after_restore(lake: Lake) -> None:
    """Bad records count if RESTORE brings their commit back, and not if it takes it out."""
    lake.run(6, 6, 6)  # versions 1 to 3, after the one that made the table
    lake.restore(1)
    lake.bad_by = (2,)
    lake.run(4)
    assert (lake.repeated_or_missing(10), lake.bad(UNDONE)) == ({}, [6, 9, 12, 15])
    # Back to the branch that was left, past the commit on the other one.
    lake.restore(3)
    lake.bad_by = (5,)
    lake.run(3)
    assert (lake.repeated_or_missing(21), lake.bad(UNDONE)) == ({}, [6, 8])
    # And to the other again.
    lake.restore(5)
    assert (lake.repeated_or_missing(10), lake.bad(UNDONE)) == ({}, [6, 9, 12, 15, 20])
    # To before all of it, by a run that goes on meanwhile.
    run = lake.start()
    lake.restore(1)
    run.write(lake, 6)
    assert lake.repeated_or_missing(12) == {}


@pytest.mark.parametrize("differs", ["group", "target"])
def test_shared_table_of_bad_records(lake: Lake, tmp_path: Path, differs: str) -> None:
    """Groups and targets that share a table of bad records see and retry only their own."""
    other = Lake(lake.spark, tmp_path / ("other" if differs == "target" else ""))
    other.group, other.bad_records = ("h" if differs == "group" else "g"), lake.bad_records
    lake.run(6, 6)
    other.run(6, 6)
    # Of the first one's rounds it leaves all where they share the target.
    other.restore(3 if differs == "group" else 1)
    assert (lake.bad(), lake.bad(UNDONE)) == ([0, 3, 6, 9], [])
    assert (other.bad(), other.bad(UNDONE)) == ([0, 3], [6, 9])
    lake.bad_by = ()
    assert retry(lake.start().writer, None) == Retried(4, 0)
    assert (lake.bad(RETRIED), other.bad(UNDONE)) == ([0, 3, 6, 9], [6, 9])


def test_bad_records_after_a_history_cut(lake: Lake) -> None:
    """Bad records count as before after Delta truncates the target's history."""
    lake.run(6, 6)
    lake.restore(1)
    lake.run(2, 1)
    cut_history(lake.target, to_others=False)
    assert (lake.repeated_or_missing(9), lake.bad(UNDONE)) == ({}, [6, 9])
    lake.run(1)
    cut_history(lake.target)
    assert (lake.bad(), lake.bad(UNDONE)) == ([0, 3, 6, 9], [6, 9])  # the table itself says what RESTORE undid


def test_session_without_persist(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in serverless sessions, which refuse persist()."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.classic.dataframe import DataFrame

    def refuse(*_: object) -> None:
        raise AnalysisException("[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported")

    monkeypatch.setattr(DataFrame, "persist", refuse)
    lake.run(6, 6)
    assert lake.repeated_or_missing(12) == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_bad_rows_of_a_paused_driver(lake: Lake, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Whether others have confirmed its number before it adds them, or confirm it later. It is killed then."""
    monkeypatch.setattr("tubeclient_ingest.rounds.writing._UNCONFIRMED_COMMITS", 0)
    lake.run(6)
    late = lake.start()
    added = BadRecords.add

    def others() -> None:
        run = lake.start()
        for _ in range(3):
            run.write(lake, 6)
            run.writer.confirm(run.writer.sink.read_state())

    def add(*given: Any) -> None:
        monkeypatch.setattr(BadRecords, "add", added)
        if when == "before":
            others()
        added(*given)
        if when == "after":
            # As if others write to the table whenever a run wants to remove some.
            monkeypatch.setattr(BadRecords, "remove", lambda *_: None)
            others()
        raise Killed

    monkeypatch.setattr(BadRecords, "add", add)
    with pytest.raises(Killed):
        late.write(lake, 6)
    lake.run(6)
    assert len(lake.bad(UNDONE)) == 2
    assert lake.repeated_or_missing(30) == {}
