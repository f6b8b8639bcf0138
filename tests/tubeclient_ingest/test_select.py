"""`--select`: whoever writes, with bad records and their retry, with a key, with partitions, and with many tables."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.bench import Bench
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.rounds.retrying import Retried
from tubeclient_ingest.tables.target_columns import OtherColumns

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT NOT NULL, email STRING, price STRING, ts TIMESTAMP"
JSON = {"format": "json", "schema": SCHEMA}
SELECT = "id, sha256(email) AS email, price::DECIMAL(10, 2) AS price, CAST(ts AS DATE) AS day"
HASH = hashlib.sha256(b"a@x").hexdigest()


def send(bench: Bench, *records: dict[str, Any] | bytes) -> None:
    bodies = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])


def record(number: int, price: str = "1.5", **more: Any) -> dict[str, Any]:
    return {"id": number, "email": "a@x", "price": price, "ts": "2026-01-01T20:00:00Z", **more}


def rows(place: str | Path, *names: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(str(place)).to_pyarrow_table(columns=[*names]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_computed_columns(bench: Bench, writer: str) -> None:
    """A value that cannot be computed is a bad record. Another list lets a retry move it."""
    bad = str(bench.folder / "bad")
    own = {**JSON, "select": SELECT, "writer": writer, "bad_records": bad, "partition_by": ("day",)}
    own["time_zone"] = "Asia/Shanghai"
    send(bench, record(1), record(2, "dear"), b"{", record(3, "2"))
    [one] = bench.run(**own)
    assert (one.rows, one.bad_rows) == (2, 2)
    place, day = bench.settings.target, date(2026, 1, 2)
    assert DeltaTable(place).metadata().partition_columns == ["day"]
    assert [field.name for field in DeltaTable(place).schema().fields] == ["id", "email", "price", "day", "tubemq"]
    assert [(n, e, float(p), d) for n, e, p, d in rows(place, "id", "email", "price", "day")] == [
        (1, HASH, 1.5, day),
        (3, HASH, 2.0, day),
    ]
    [reason] = [row for (row,) in rows(bad, "reason") if "price" in row]
    assert reason == "price cannot be computed from price"
    own["select"] = SELECT.replace("price::", "replace(price, 'dear', '99')::")
    assert bench.job(**own).retry() == Retried(1, 1)
    assert [(n, float(p)) for n, p in rows(place, "id", "price")] == [(1, 1.5), (2, 99.0), (3, 2.0)]


def test_a_job_without_bad_records_ends_at_one(bench: Bench) -> None:
    send(bench, record(1), record(2, "dear"))
    with pytest.raises(Exception, match="price cannot be computed") as caught:
        bench.run(**JSON, select=SELECT)
    assert "dear" not in error_text(caught.value)


def test_another_list_has_other_columns(bench: Bench, tmp_path: Path) -> None:
    """Of a file, too. Rows of before have null."""
    send(bench, record(1))
    bench.run(**JSON, select="id")
    (tmp_path / "own.sql").write_text("id,\n  price AS cost -- what it was\n")
    send(bench, record(2))
    with pytest.raises(OtherColumns, match="lacks columns of the job's rows: cost string"):
        bench.run(**JSON, select=str(tmp_path / "own.sql"))
    bench.run(**JSON, select=str(tmp_path / "own.sql"), evolve=True)
    assert sorted(rows(bench.settings.target, "id", "cost"), key=repr) == [(1, None), (2, "1.5")]


def test_the_newest_state_of_a_renamed_key(bench: Bench) -> None:
    own = {**JSON, "select": "id AS number, upper(email) AS email, ts", "key": ("number",), "order_by": "ts"}
    send(bench, record(1), record(2), record(1, email="b@x", ts="2026-01-02T00:00:00Z"))
    bench.run(**own)
    assert rows(bench.settings.target, "number", "email") == [(1, "B@X"), (2, "A@X")]
    for key, reason in (("email", "which select computes"), ("id", "which the rows do not have")):
        with pytest.raises(ConfigurationError, match=reason):
            bench.run(**own | {"key": (key,), "consumer_group": "others", "target": str(bench.folder / "others")})


def test_changes_that_lack_columns(bench: Bench) -> None:
    """What is computed of columns that an update does not name stays as it is in the table."""

    def event(kind: str, at: int, *old: dict[str, Any], **row: str) -> dict[str, Any]:
        return {"type": kind, "data": [row], "old": [*old] or None, "es": at, "ts": at, "isDdl": False}

    own = {
        "format": "canal-json",
        "schema": "id BIGINT, name STRING, n STRING",
        "select": "id AS key, upper(name) AS who, n::INT + 1 AS more",
        "key": ("key",),
        "bad_records": str(bench.folder / "bad"),
    }
    send(bench, *(event("INSERT", 1, id=str(one), name="a", n="1") for one in range(4)))
    bench.run(**own)
    send(
        bench,
        event("UPDATE", 2, {}, id="0", n="7"),
        event("UPDATE", 2, {"id": "1"}, id="9", name="b"),
        event("DELETE", 2, id="2"),
        event("UPDATE", 2, {}, id="3", n="many"),
    )
    [one] = bench.run(**own)
    assert one.bad_rows == 1
    place = bench.settings.target
    assert sorted(rows(place, "key", "who", "more"), key=repr) == [(0, "A", 8), (3, "A", 2), (9, "B", None)]


def test_each_table_of_many_has_its_own_list(bench: Bench, tmp_path: Path) -> None:
    """A stream without a file is not defined."""
    (tmp_path / "a.sql").write_text("id, upper(email) AS who")
    (tmp_path / "b.sql").write_text("id, price::DOUBLE AS price")
    send(bench, record(1, kind="a"), record(2, kind="b"), record(3, kind="c"))
    own = {**JSON, "table_by": "$.kind", "target": str(bench.folder / "{stream}")}
    bench.run(**own, select=str(tmp_path / "{stream}.sql"))
    assert rows(bench.folder / "a", "id", "who") == [(1, "A@X")]
    assert rows(bench.folder / "b", "id", "price") == [(2, 1.5)]
    assert len(rows(bench.folder / "_rest", "value")) == 1
    assert not (bench.folder / "c").exists()


def test_columns_that_events_say_are_not_selected(bench: Bench) -> None:
    with pytest.raises(ConfigurationError, match="the tables' columns come from events"):
        bench.job(format="canal-json", table_by="database.table", target=str(bench.folder / "{table}"), select="*")
