"""What a session says of writes to Delta is said of the user's writes, and not of the job's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from spark_source.session_confs import session_confs
from tests.tubeclient_ingest.bench import Bench
from tubeclient_ingest.job import IngestFailed
from tubeclient_ingest.run import Engine
from tubeclient_ingest.tables.spark_table import SparkTable

pytestmark = pytest.mark.spark

DELTA = "spark.databricks.delta."
HOW = {"format": "canal-json", "schema": "id BIGINT NOT NULL, name STRING", "key": ("id",)}


def send(bench: Bench, kind: str, *ids: int, at: int) -> None:
    """A change of each row, and two messages that are none."""
    made = ({"data": [{"id": str(n), "name": f"n{at}"}], "type": kind, "es": at, "ts": at, "id": 1} for n in ids)
    bodies = [*(json.dumps(one).encode() for one in made), b"{", b"["]
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])


@pytest.mark.merge
def test_transaction_options_of_the_session(bench: Bench) -> None:
    """The job ignores the transaction and the metadata that the session sets for writes."""
    bad = str(bench.folder / "bad")
    of_session = {
        f"{DELTA}write.txnAppId": "mine",
        f"{DELTA}write.txnVersion": "7",
        f"{DELTA}commitInfo.userMetadata": "mine",
    }
    with session_confs(bench.spark, of_session):
        send(bench, "INSERT", 1, 2, 3, at=10)
        send(bench, "DELETE", 1, at=30)
        bench.run(**HOW, bad_records=bad)
        send(bench, "DELETE", 2, at=30)
        bench.run(**HOW, bad_records=bad)
        send(bench, "UPDATE", 1, 2, 3, at=20)  # late: 1 and 2 are gone by then
        bench.run(**HOW, bad_records=bad)
        assert {name: bench.spark.conf.get(name) for name in of_session} == of_session
    rows = DeltaTable(bench.settings.target).to_pyarrow_table(columns=["id", "name"]).to_pylist()
    assert rows == [{"id": 3, "name": "n20"}]
    assert len(DeltaTable(bad).to_pyarrow_table()) == 8


@pytest.mark.parametrize("name", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_temporarily_missing_file(bench: Bench, name: str) -> None:
    """Whatever the session allows: what OPTIMIZE passes over would be gone, and what a MERGE does would be twice."""
    with session_confs(bench.spark, {f"spark.sql.files.{name}": "true"}):
        for number in range(2):
            send(bench, "INSERT", number, at=10)
            bench.run(**HOW, bad_records=str(bench.folder / "bad"))
        place = bench.settings.target
        one = Path(place, DeltaTable(place).file_uris()[0].removeprefix(f"file://{place}/"))
        one.rename(one.with_suffix(".away"))
        with Engine.on(bench.spark, bench.settings) as engine, pytest.raises(Exception, match="FILE_NOT_EXIST"):
            SparkTable(engine.spark, place).optimize()
        send(bench, "UPDATE", 0, 1, at=20)
        with pytest.raises(IngestFailed, match="FILE_NOT_EXIST"):
            bench.run(**HOW, bad_records=str(bench.folder / "bad"))
        one.with_suffix(".away").rename(one)
        bench.run(**HOW, bad_records=str(bench.folder / "bad"))
    rows = DeltaTable(place).to_pyarrow_table(columns=["id", "name"]).to_pylist()
    assert sorted(rows, key=str) == [{"id": 0, "name": "n20"}, {"id": 1, "name": "n20"}]


OLD = {("1500-02-10", "1500-02-10 01:02:03"), ("0001-01-02", "1582-10-10 00:00:00")}
CALENDARS = [f"spark.sql.parquet.{one}RebaseModeIn" for one in ("datetime", "int96")]


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_old_days_are_as_they_were_written(bench: Bench, writer: str) -> None:
    """Whatever calendar the session reads and writes by, and after the files were put together."""
    how: dict[str, Any] = {"format": "json", "schema": "day DATE, at TIMESTAMP", "writer": writer}
    place = bench.settings.target
    with session_confs(bench.spark, {f"{one}{way}": "LEGACY" for one in CALENDARS for way in ("Read", "Write")}):
        for day, at in OLD:
            bench.tube.load("clicks", [NewMessage(0, json.dumps({"day": day, "at": f"{at}Z"}).encode())])
            bench.run(**how)
        with Engine.on(bench.spark, bench.settings) as engine:
            SparkTable(engine.spark, place).optimize()
    assert len(DeltaTable(place).file_uris()) == 1
    rows = bench.spark.table(f"delta.`{place}`").selectExpr("CAST(day AS STRING) AS day", "CAST(at AS STRING) AS at")
    assert {tuple(row) for row in rows.collect()} == OLD
    others = DeltaTable(place).to_pyarrow_table(columns=["day", "at"]).to_pylist()
    assert {(str(row["day"]), str(row["at"])[:19]) for row in others} == OLD


def test_texts_of_sql_have_no_variables_of_the_driver(bench: Bench) -> None:
    """InLong's Manager says some of them."""
    bench.run()
    with Engine.on(bench.spark, bench.settings) as engine:
        SparkTable(engine.spark, bench.settings.target).set_properties({"mine": "${env:HOME} ${spark.app.name}"})
    assert DeltaTable(bench.settings.target).metadata().configuration["mine"] == "${env:HOME} ${spark.app.name}"


def test_cached_table(bench: Bench) -> None:
    """The job reads its tables anew although Spark has them in its cache."""
    bad = str(bench.folder / "bad")
    how: dict[str, Any] = {"format": "json", "schema": "id BIGINT NOT NULL", "bad_records": bad}
    send(bench, "INSERT", at=10)
    bench.run(**how)
    cached = bench.spark.table(f"delta.`{bad}`").cache()
    assert cached.count() == 2
    send(bench, "INSERT", at=20)
    bench.run(**how)
    assert bench.job(**how).bad_records().count() == 4
    cached.unpersist()


def test_auto_compaction_by_the_session(bench: Bench) -> None:
    """A compaction that repeats a commit's text does not count as a commit of the group."""
    compacts = {f"{DELTA}autoCompact.enabled": "true", f"{DELTA}autoCompact.minNumFiles": "2"}
    bad = str(bench.folder / "bad")
    with session_confs(bench.spark, compacts):
        for at in range(4):
            send(bench, "INSERT", *range(10 * at, 10 * at + 10), at=at)
            assert [(one.rows, one.bad_rows) for one in bench.run(**HOW, bad_records=bad)] == [(10, 2)]
    done = [one["operation"] for one in DeltaTable(bench.settings.target).history()]
    assert "OPTIMIZE" in done
    ids = DeltaTable(bench.settings.target).to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == [*range(40)]


def test_a_time_that_partitions_a_table_says_its_zone(bench: Bench) -> None:
    bench.tube.load("clicks", [NewMessage(0, b'{"id": 1, "at": "2024-01-02 03:04:05"}')])
    how = {"format": "json", "schema": "id INT, at TIMESTAMP"}
    with session_confs(bench.spark, {f"{DELTA}write.utcTimestampPartitionValues": "false"}):
        bench.run(**how, partition_by=("at",), time_zone="Asia/Shanghai")
    [row] = bench.spark.table(f"delta.`{bench.settings.target}`").selectExpr("unix_seconds(at) AS at").collect()
    assert row.at == 1_704_135_845
