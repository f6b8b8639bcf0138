"""The ingest job with typed rows: what the table has, what ends the job, and what a later schema does."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from tests.spark_source.typed.test_protobuf import click
from tests.tubeclient.records.avro_records import USER, avsc, user
from tests.tubeclient.records.protos import shop
from tests.tubeclient_ingest.bench import Bench
from tubeclient.conditions import error_text
from tubeclient_ingest.job import IngestFailed
from tubeclient_ingest.rounds.retrying import Retried
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.tables.target_columns import OtherColumns

pytestmark = pytest.mark.spark

IDS = {"format": "json", "schema": "id BIGINT NOT NULL"}
NAMED = {"format": "json", "schema": "id BIGINT NOT NULL, name STRING"}


def send(bench: Bench, *bodies: bytes) -> None:
    bench.tube.load("clicks", [NewMessage(10_000 * (n % 2), body) for n, body in enumerate(bodies)])


def records(first: int, count: int = 20) -> list[bytes]:
    return [json.dumps({"id": n, "name": f"n{n}"}).encode() for n in range(first, first + count)]


def rows(bench: Bench) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(bench.settings.target).to_pyarrow_table().to_pylist()
    return found


def ids(bench: Bench) -> list[int]:
    return sorted(row["id"] for row in rows(bench))


def test_avro_records(bench: Bench, tmp_path: Path) -> None:
    """Tasks write them. A retry reads the bad ones by a schema whose enum has one symbol more."""
    send(bench, *[user(n, "x", 0, 1, n) for n in range(20)], user(20, kind=2), b"")
    own = {"format": "avro", "bad_records": str(tmp_path / "bad"), "writer": "tasks"}
    [one] = bench.run(**own, schema=avsc(tmp_path))
    assert (ids(bench), one.bad_rows) == (list(range(20)), 2)
    [five] = [row for row in rows(bench) if row["id"] == 5]
    assert (five["name"], five["kind"], five["counts"], five["first"]) == ("x", "BUY", [5], None)
    reasons = {row["reason"] for row in DeltaTable(own["bad_records"]).to_pyarrow_table().to_pylist()}
    assert reasons == {"the value of kind is not a symbol of its enum, at byte 10", "the record is empty"}
    newer = json.dumps(USER).replace('"BUY"', '"BUY", "SELL"')
    assert bench.job(**own, schema=newer).retry() == Retried(1, 1)
    assert {row["kind"] for row in rows(bench) if row["id"] == 20} == {"SELL"}


def test_the_newest_avro_record_of_each_key(bench: Bench, tmp_path: Path) -> None:
    own = {"format": "avro", "schema": avsc(tmp_path), "key": ("id",), "order_by": "at"}
    send(bench, user(1, "new", 3_000), user(2, "a", 1_000), user(1, "old", 2_000))
    bench.run(**own)
    send(bench, user(2, "b", 2_000), user(1, "older", 1_000))
    bench.run(**own)
    assert {(row["id"], row["name"]) for row in rows(bench)} == {(1, "new"), (2, "b")}


def test_protobuf_records_too_by_their_fields(bench: Bench, tmp_path: Path) -> None:
    send(bench, *[shop(id=n, big=2**64 - 1, maybe={}, point={"x": n}) for n in range(20)], b"\x08")
    bad = {"bad_records": str(tmp_path / "bad")}
    [one] = bench.run(format="protobuf", format_options=click(tmp_path), **bad)
    assert (ids(bench), one.bad_rows) == (list(range(20)), 1)
    [five] = [row for row in rows(bench) if row["id"] == 5]
    assert (five["big"], five["maybe"], five["note"], five["point"]) == (2**64 - 1, 0, None, {"x": 5, "y": 0})


def test_restart_with_another_schema(bench: Bench) -> None:
    """Each record is there once if the job restarts with another schema."""
    send(bench, *records(0))
    bench.run(**IDS)
    assert set(rows(bench)[0]) == {"id", "tubemq"}
    assert Counter(row["tubemq"]["partitionKey"] for row in rows(bench)) == {"1:clicks:0": 10, "1:clicks:10000": 10}
    send(bench, *records(20))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Sink, "read_state", lambda _: pytest.fail("the history was read first, which takes long"))
        with pytest.raises(OtherColumns, match=r"lacks columns of the job's rows: name string\. .* evolve"):
            bench.run(**NAMED)
        with pytest.raises(OtherColumns, match=r"column id of .* has type bigint, but the job's rows have string"):
            bench.run(format="json", schema="id STRING", evolve=True)
    bench.run(**NAMED, evolve=True)
    assert ids(bench) == list(range(40))
    assert {row["id"]: row["name"] for row in rows(bench)} == {n: f"n{n}" if n >= 20 else None for n in range(40)}
    # Fewer columns again, also within the struct: null in the new rows.
    more = {**bench.settings.source_options, "columns": "*, attributes"}
    send(bench, *records(40))
    bench.run(**NAMED, evolve=True, source_options=more)
    send(bench, *records(60))
    bench.run(**IDS)
    assert ids(bench) == list(range(80))
    assert {row["tubemq"]["attributes"] is None for row in rows(bench) if row["id"] >= 60} == {True}


def test_bad_record_ends_the_job(bench: Bench) -> None:
    """Without bad-records, a bad record ends the job, and the table gets nothing of its round."""
    send(bench, *records(0))
    bench.run(**IDS)
    version = DeltaTable(bench.settings.target).version()
    send(bench, *records(20), b'{"name":"secret"}')
    with pytest.raises(IngestFailed) as caught:
        bench.run(**IDS)
    cause = error_text(caught.value)
    place = r"\[BAD_RECORD\] bad record in topic clicks, partition 1:clicks:0, offset \d+, message id "
    assert re.match(place, cause)
    assert ": id is NOT NULL but has no value. Nothing of its round was written. Correct the format" in cause
    assert "secret" not in cause
    assert DeltaTable(bench.settings.target).version() == version
    bench.spark.sql(f"ALTER TABLE delta.`{bench.settings.target}` ALTER COLUMN id DROP NOT NULL").collect()
    bench.run(format="json", schema="id BIGINT")
    assert Counter(row["id"] for row in rows(bench)) == Counter([None, *range(40)])


def test_not_null_columns_of_a_new_table(bench: Bench, tmp_path: Path) -> None:
    """Whoever loosens the schema afterwards has to loosen the table as well."""
    bad: dict[str, Any] = {"format": "json", "bad_records": str(tmp_path / "bad")}
    send(bench, *records(0), b'{"name": "none"}')
    bench.run(**bad, schema="id BIGINT NOT NULL")
    loose = {**bad, "schema": "id BIGINT"}
    send(bench, *records(20), b"{}")
    [one] = bench.run(**loose)
    assert (ids(bench), one.bad_rows) == ([*range(40)], 1)
    assert bench.job(**loose).retry() == Retried(0, 2)
    reasons = {row["reason"] for row in DeltaTable(bad["bad_records"]).to_pyarrow_table().to_pylist()}
    assert reasons == {"id is NOT NULL but has no value", "id is NOT NULL in the target but has no value"}
    bench.spark.sql(f"ALTER TABLE delta.`{bench.settings.target}` ALTER COLUMN id DROP NOT NULL").collect()
    assert bench.job(**loose).retry() == Retried(2, 0)


def test_changes_without_not_null_columns(bench: Bench) -> None:
    """In a log of them: a delete has the key only, and DDL nothing at all."""
    send(bench, b'{"op": "d", "before": {"id": 1}}', b'{"op": "t"}', b'{"op": "c", "after": {"id": 2, "v": 3}}')
    bench.run(format="debezium-json", schema="id BIGINT NOT NULL, v BIGINT NOT NULL")
    found = {(row["change"]["operation"], row["id"], row["v"]) for row in rows(bench)}
    assert found == {("delete", 1, None), ("truncate", None, None), ("insert", 2, 3)}


def test_a_wrong_schema_makes_no_table(bench: Bench) -> None:
    with pytest.raises(Exception, match="the schema cannot be parsed"):
        bench.run(format="json", schema="id DECIMAL(50)")
    assert not DeltaTable.is_deltatable(bench.settings.target)
