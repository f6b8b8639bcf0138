"""What tasks write is what Spark would have written: equal rows, to all who read them, whoever wrote."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable, QueryBuilder

from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.bench import Bench, Seen
from tests.tubeclient_ingest.lake import each_commit
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.commits.beginning import TableChanged
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.job import IngestFailed
from tubeclient_ingest.run import Event, SparkWrites
from tubeclient_ingest.tables.log_table import LogTable

pytestmark = pytest.mark.spark

SCHEMA = """
    id BIGINT NOT NULL, name STRING, price DECIMAL(20, 3), exact DECIMAL(38, 0), at TIMESTAMP, wall TIMESTAMP_NTZ,
    day DATE, ok BOOLEAN, ratio DOUBLE, small FLOAT, tiny TINYINT, bytes BINARY, tags ARRAY<STRING>,
    counts MAP<STRING, BIGINT>, place STRUCT<city: STRING, at: STRUCT<x: DOUBLE, y: DOUBLE>>, kind STRING,
    list ARRAY<STRUCT<n: INT>>
"""
VALUES: list[dict[str, Any]] = [
    {"name": "x" * 40, "price": 1.25, "ratio": 1.5, "at": "2026-01-02T03:04:05.678901Z", "day": "2026-01-02"},
    {"name": "", "ratio": "NaN", "small": "NaN", "wall": "1500-01-01T00:00:00.000001", "day": "0001-01-01", "kind": ""},
    {"name": "\U0010ffff" * 40, "ratio": -0.0, "at": "9999-12-31T23:59:59.999999Z", "day": "9999-12-31", "tiny": -128},
    {"name": "line\nbreak \u0000 '\"%20é", "exact": 10**38 - 1, "ratio": "Infinity", "at": "1900-01-01T00:00:00Z"},
    {"tags": ["a", None, ""], "counts": {"k": 1, "": None}, "place": {"city": None, "at": {"x": 0.0, "y": None}}},
    {"tags": [], "counts": {}, "place": {}, "list": [{"n": 1}, None, {}], "bytes": "AAEC", "ok": True},
    {"place": None, "name": None, "ok": False, "kind": "a b/c=d%20\u00e9"},
    {"kind": "".join(map(chr, range(1, 128)))},
]
PREDICATES = (
    "name > 'x' OR name = ''",
    f"name >= '{'x' * 40}'",
    "ratio > 1e300",
    "isnan(ratio)",
    "ratio = 0",
    "at > timestamp'9999-12-31 23:59:59.999Z'",
    "at <= timestamp'1900-01-01 00:00:00Z'",
    "wall < timestamp_ntz'1600-01-01 00:00:00'",
    "day < date'0001-01-02'",
    "exact > 1",
    "place.at.x = 0 AND place.at.y IS NULL",
    "place IS NULL",
    "name IS NULL",
    "get(tags, 0) = 'a'",
)


def send(bench: Bench) -> None:
    bodies = [json.dumps({"id": n, **one}).encode() for n, one in enumerate(VALUES)] + [b'{"id": "no"}', b"", b"{"]
    bench.tube.load("clicks", [NewMessage(10_000 * (n % 2), body) for n, body in enumerate(bodies)])


def run(bench: Bench, writer: str, **more: Any) -> tuple[dict[str, str], list[Event]]:
    """Where the rows and the bad ones are, and what the run told."""
    places = {"target": str(bench.folder / f"by {writer}"), "bad_records": str(bench.folder / f"bad by {writer}")}
    events: list[Event] = []
    given: dict[str, Any] = {"format": "json", "schema": SCHEMA, "offsets_table": None, "consumer_group": writer}
    bench.job(**{**given, **places, "writer": writer, **more}).run(events.append)
    return places, events


@pytest.mark.merge("partition_by1")
@pytest.mark.parametrize("partition_by", [(), ("day", "ok"), ("tiny", "kind")])
def test_rows_are_equal_whoever_wrote_them(bench: Bench, partition_by: tuple[str, ...]) -> None:
    send(bench)
    (mine, told), (sparks, sparks_told) = (run(bench, one, partition_by=partition_by) for one in ("tasks", "spark"))
    assert [one for one in told if isinstance(one, SparkWrites)] == []
    assert [one.reason for one in sparks_told if isinstance(one, SparkWrites)] == ["writer is spark"]
    spark = bench.spark
    for name in ("target", "bad_records"):
        first, second = (spark.read.format("delta").load(one[name]) for one in (mine, sparks))
        own = ["id", "time", "target", "targetId", "runId", "consumerGroup", "reason"] if name == "bad_records" else []
        assert first.schema == second.schema
        columns = [f"to_json(struct({one})) AS {one}" for one in first.columns if one not in own]
        rows = [sorted(map(str, frame.selectExpr(*columns).collect())) for frame in (first, second)]
        assert rows[0] == rows[1]
        assert len(rows[0]) > 2
        # Readers such as Polars take the values of partitions from there.
        folders = [
            {unquote(str(one.parent.relative_to(where))) for one in Path(where).rglob("part-*")}
            for where in (mine[name], sparks[name])
        ]
        assert folders[0] == folders[1]
    first, second = (spark.read.format("delta").load(one["target"]) for one in (mine, sparks))
    for predicate in PREDICATES:
        found = [sorted(row.id for row in frame.where(predicate).select("id").collect()) for frame in (first, second)]
        assert found[0] == found[1], predicate
    # delta-rs reads them too, which passes over files by the same bounds.
    table = QueryBuilder().register("rows", DeltaTable(mine["target"]))
    assert table.execute('SELECT "id" FROM rows WHERE "ratio" = 0').read_all().num_rows == 1


def test_vacuum_leaves_the_files_of_each_partition(bench: Bench) -> None:
    """It goes by the paths in the log, as texts."""
    values = ["é", "日本", "e\u0301 \U0001d11e", "x" * 200, "é" * 100, "".join(map(chr, range(1, 128)))]
    bodies = [json.dumps({"id": n, "größe": value}).encode() for n, value in enumerate(values)]
    bench.tube.load("clicks", [NewMessage(0, one) for one in bodies])
    bench.run(format="json", schema="id BIGINT, `größe` STRING", partition_by=("größe",), writer="tasks")
    place = Path(bench.settings.target)
    files = [one for one in place.rglob("*.parquet") if "_delta_log" not in one.parts]
    for one in files:
        os.utime(one, times=(0, 0))
    bench.spark.sql(f"VACUUM delta.`{place}`").collect()
    assert len(files) == len(values)
    assert all(one.exists() for one in files)
    found = bench.spark.read.format("delta").load(str(place)).select("id", "größe").collect()
    assert sorted(map(tuple, found)) == [*enumerate(values)]
    read = DeltaTable(str(place)).to_pyarrow_table(columns=["id", "größe"]).to_pylist()
    assert sorted(tuple(row.values()) for row in read) == [*enumerate(values)]


def test_table_change_seen_after_a_commit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit's bad records survive if the check after the commit finds another table."""
    commit, history, done = LogTable.commit, LogTable.history, []

    def committed(self: LogTable, files: Any, record: SinkRecord | None = None) -> None:
        commit(self, files, record)
        done.extend([record] * (record is not None and record.bad > 0))

    def looked(self: LogTable, limit: int) -> Any:
        if len(done) == 1:
            done.append(done[0])
            raise TableChanged
        return history(self, limit)

    monkeypatch.setattr(LogTable, "commit", committed)
    monkeypatch.setattr(LogTable, "history", looked)
    how = {"format": "json", "schema": "id BIGINT NOT NULL", "bad_records": str(bench.folder / "bad")}
    bench.tube.load("clicks", [NewMessage(0, body) for body in (b'{"id": 1}', b"{")])
    bench.job(**how).run()
    assert len(done) == 2
    assert bench.job(**how).bad_records().count() == 1
    assert [row.id for row in bench.spark.read.format("delta").load(bench.settings.target).collect()] == [1]


@pytest.mark.parametrize("more", [{}, {"key": ("name",), "order_by": "arrival"}])
def test_columns_without_a_value_are_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture, more: dict[str, Any]
) -> None:
    """A misspelt name has none, and each record is good all the same."""
    how = {"format": "json", "schema": "idd BIGINT, name STRING, NOTE STRING, tags ARRAY<STRING>", **more}
    for number in (0, 1):
        rows = [{"id": number, "name": f"a{name}", "note": "b"} for name in range(100)]
        bench.tube.load("clicks", [NewMessage(0, json.dumps(one).encode()) for one in rows])
        bench.run(**how, max_offsets_per_trigger=50)
    [first, _] = [one.getMessage() for one in caplog.records if "has a value for" in one.getMessage()]
    assert re.match(
        "none of the first 50 records has a value for idd, NOTE(, tags)?, so they are null in delta.`/", first
    )


def test_upkeep_of_others_works_on_what_tasks_wrote(bench: Bench) -> None:
    """OPTIMIZE, a deletion vector, VACUUM, RESTORE, a clone, the change data feed; and the job goes on."""
    bench.settings = bench.job(writer="tasks").settings
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    for _ in range(3):
        bench.send(20)
        assert bench.rows(table_properties=properties) == 20
    where = f"delta.`{bench.settings.target}`"
    optimized = bench.spark.sql(f"OPTIMIZE {where}").collect()[0].metrics
    assert (optimized.numFilesRemoved, optimized.numFilesAdded) == (6, 1)
    assert bench.rows(table_properties=properties) == 0
    feed = bench.spark.sql(
        f"SELECT _change_type, count(*) FROM table_changes_by_path('{bench.settings.target}', 0) GROUP BY 1"
    )
    assert [tuple(row) for row in feed.collect()] == [("insert", 60)]
    bench.spark.sql(f"VACUUM {where} RETAIN 200 HOURS").collect()
    clone = bench.folder / "clone"
    bench.spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE {where}").collect()
    assert bench.spark.read.format("delta").load(str(clone)).count() == 60
    bench.restore(2)
    bench.send(10)
    assert bench.rows(table_properties=properties) == 70 - 20
    assert bench.repeated_or_missing() == {}
    bench.spark.sql(f"DELETE FROM {where} WHERE CAST(CAST(value AS STRING) AS INT) = 3").collect()
    assert bench.spark.read.format("delta").load(bench.settings.target).count() == 69


@pytest.mark.merge
def test_a_rule_that_comes_while_the_job_runs_is_kept(bench: Bench) -> None:
    """The job chooses anew: from then on Spark writes, and a row that the rule refuses is bad."""
    events: list[Event] = []

    def see(event: Event) -> None:
        events.append(event)
        if len(seen.rounds) == 1 and event is seen.rounds[0]:
            rule = "CHECK (CAST(CAST(value AS STRING) AS INT) < 30)"
            bench.spark.sql(f"ALTER TABLE delta.`{bench.settings.target}` ADD CONSTRAINT few {rule}").collect()

    def both(event: Event) -> None:
        seen(event)
        see(event)

    seen = Seen(bench)
    bench.send(40)
    bad = str(bench.folder / "bad")
    bench.job(bad_records=bad, max_offsets_per_trigger=20).run(both)
    assert [one.reason for one in events if isinstance(one, SparkWrites)] == ["the target's constraint few refuses it"]
    assert bench.repeated_or_missing() == dict.fromkeys(range(30, 40), 0)
    assert DeltaTable(bad).to_pyarrow_table().num_rows == 10


def test_tasks_cannot_write_with_a_key(bench: Bench) -> None:
    """The job says why tasks cannot write if writer is tasks and the target has a key."""
    with pytest.raises(
        ConfigurationError, match=r"writer is tasks, but tasks cannot write \S+: rows are merged by a key\."
    ):
        bench.run(writer="tasks", format="json", schema="id BIGINT NOT NULL, n BIGINT", key=("id",), order_by="n")


def test_disk_that_tasks_cannot_write_to(bench: Bench) -> None:
    """The job fails with TARGET_NOT_WRITABLE and commits nothing if tasks cannot write files."""
    bench.send(20)
    bench.run()
    version, destination = DeltaTable(bench.settings.target).version(), LogTable.destination
    bench.send(20)
    with pytest.MonkeyPatch.context() as patched:
        gone = str(bench.folder / "gone")
        patched.setattr(LogTable, "destination", lambda table, schema: replace(destination(table, schema), uri=gone))
        with pytest.raises(IngestFailed, match=r"a task cannot write the files of a round: .*/gone") as caught:
            bench.run()
    assert caught.value.condition == "TARGET_NOT_WRITABLE"
    assert DeltaTable(bench.settings.target).version() == version
    assert bench.rows() == 20
    assert bench.repeated_or_missing() == {}


def test_compaction_beside_rounds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job compacts small files while rounds go on, and each record is there once."""
    monkeypatch.setattr("tubeclient_ingest.tables.log_table.UPKEEP_COMMITS", 5)
    bad = str(bench.folder / "bad")
    for _ in range(6):
        bench.send(20)
        bench.run(bad_records=bad, max_offsets_per_trigger=10)
    table = DeltaTable(bench.settings.target)
    operations = [one["operation"] for one in table.history()]
    assert operations.count("WRITE") == 13
    assert 1 <= operations.count("OPTIMIZE") <= 3
    assert len(table.file_uris()) < 2 * 12 - 8
    assert bench.repeated_or_missing() == {}


def test_retry_between_files_and_commit(bench: Bench) -> None:
    """It takes the round's number. So the bad records are written anew, for the next one."""
    how: dict[str, Any] = {"format": "csv", "schema": "id INT, v INT", "bad_records": str(bench.folder / "bad")}
    bodies = [b"1,1", b"2,two", b"3,three", b"4,4", b"5,two", b"6,three"]
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies[:3]])
    bench.run(**how)
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies[3:]])
    moved: list[int] = []

    def around(_: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        if record is None and not moved:
            moved.append(0)
            moved.append(bench.job(**how, format_options={"nullValue": "two"}).retry().moved)
        commit()

    with each_commit(around):
        bench.run(**how)
    assert moved == [0, 1]
    rows = DeltaTable(bench.settings.target).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["v"]) for row in rows) == [(1, 1), (2, None), (4, 4)]
    found = bench.job(**how).bad_records().select("value", "state").collect()
    states = sorted((bytes(row.value), row.state) for row in found)
    assert states == [(b"2,two", "retried"), (b"3,three", "bad"), (b"5,two", "bad"), (b"6,three", "bad")]


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_delete_by_others_beside_a_commit(bench: Bench, writer: str) -> None:
    """A DELETE by others beside a commit ends no job, and its rows do not come back."""
    bench.send(20)
    bench.run(writer=writer)
    bench.send(10)
    where, deleted = f"delta.`{bench.settings.target}`", list[int]()

    def around(_: Any, __: SinkRecord | None, commit: Callable[[], None]) -> None:
        if not deleted:
            deleted.append(7)
            bench.spark.sql(f"DELETE FROM {where} WHERE CAST(CAST(value AS STRING) AS INT) = 7").collect()
        commit()

    with each_commit(around):
        assert bench.rows(writer=writer) == 10
    assert bench.repeated_or_missing() == {7: 0}
    bench.send(5)
    assert bench.rows(writer=writer) == 5


def test_table_recreated_beside_a_commit(bench: Bench) -> None:
    """A table gets all rows if somebody recreates it beside a commit."""
    bench.send(20)
    bench.run()
    bench.send(10)
    target, made = Path(bench.settings.target), list[int]()

    def around(_: Any, __: SinkRecord | None, commit: Callable[[], None]) -> None:
        if not made:
            made.append(1)
            empty = bench.spark.read.format("delta").load(str(target)).limit(0)
            columns = empty.schema
            shutil.rmtree(target)
            bench.spark.createDataFrame([], columns).write.format("delta").save(str(target))
        commit()

    with each_commit(around):
        bench.run()
    assert bench.repeated_or_missing() == {}


def test_table_change_after_bad_records(bench: Bench) -> None:
    """The round is written anew, and its bad records are there once."""
    how: dict[str, Any] = {"format": "json", "schema": "id BIGINT", "bad_records": str(bench.folder / "bad")}
    changed: list[int] = []

    def around(_: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        if record is not None and record.bad and not changed:
            changed.append(1)
            bench.spark.sql(f"ALTER TABLE delta.`{bench.settings.target}` SET TBLPROPERTIES ('x' = 'y')").collect()
        commit()

    bench.tube.load("clicks", [NewMessage(0, body) for body in (b'{"id": 6}', b"no", b"nope")])
    with each_commit(around):
        bench.run(**how)
    assert changed
    found = bench.job(**how).bad_records().where("state = 'bad'").select("value").collect()
    assert sorted(bytes(row.value) for row in found) == [b"no", b"nope"]
    assert DeltaTable(bench.settings.target).to_pyarrow_table().column("id").to_pylist() == [6]


@pytest.mark.parametrize(("column", "partition_by"), [("must STRING NOT NULL", ()), ("p STRING", ("p",))])
def test_rows_without_a_column_that_files_need(bench: Bench, column: str, partition_by: tuple[str, ...]) -> None:
    """Spark writes, and the job says why, if rows lack a NOT NULL or a partition column."""
    how: dict[str, Any] = {"format": "json", "partition_by": partition_by}
    name, told = column.split()[0], list[Event]()
    bench.tube.load("clicks", [NewMessage(0, b'{"id": 1, "%s": "x"}' % name.encode())])
    bench.run(**how, schema=f"id BIGINT, {column}")
    bench.tube.load("clicks", [NewMessage(0, b'{"id": 2}')])
    with suppress(IngestFailed):  # Delta refuses a row that lacks what is NOT NULL
        bench.job(**how, schema="id BIGINT").run(told.append)
    reasons = [one.reason.partition(", which")[0] for one in told if isinstance(one, SparkWrites)]
    assert reasons == [f"the rows lack {name}"]
    rows = bench.spark.read.format("delta").load(bench.settings.target).select("id", name).collect()
    assert len(rows) == (2 if partition_by else 1)
