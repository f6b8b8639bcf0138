"""Change records of Debezium and Canal: what is a row, what was done and when, and what is bad as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_source.typed.record_format import RecordFormat, pinned, target_rows
from spark_source.typed.typed import typed
from tests.spark_source.typed.rows import source_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DDL = "id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(20,10), at TIMESTAMP"
ROW = {"id": 1, "name": "x", "price": 1.5}
OPERATION = "op is none of Debezium's"


def read(
    spark: SparkSession, kind: str, bodies: Sequence[Any], keys: tuple[str, ...] = (), ddl: str = DDL
) -> list[Any]:
    """For each body its reason, or its rows: (operation, [time, position, row], id, name, price)."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    values = [body if isinstance(body, bytes | None) else json.dumps(body).encode() for body in bodies]
    with pinned(spark, {"spark.sql.session.timeZone": "UTC"}):
        parsed = RecordFormat(kind, schema, keys=keys).parse(source_rows(spark, values))
        found = parsed.select("messageId", "record", "badReason").orderBy("messageId").collect()
    assert all((row.record is None) == (row.badReason is not None) for row in found)
    return [row.badReason or [_plain(one) for one in row.record] for row in found]


def _plain(row: Any) -> tuple[Any, ...]:
    when = row.change.sequence
    assert (when.round, when.place) == (None, None)
    return row.change.operation, [when.time, when.position, when.row], row.id, row.name, row.price and str(row.price)


def event(op: str, source: Mapping[str, Any], **images: Any) -> dict[str, Any]:
    return {"before": None, "after": None, "source": source, "op": op, "ts_ms": 99, **images}


MYSQL = {"ts_ms": 5, "file": "mysql-bin.000003", "pos": 154, "row": 2, "snapshot": "false"}


def test_events_of_debezium(delta_spark: SparkSession) -> None:
    exact = b'{"op":"u","after":{"id":1,"name":"x","price":1.0000000001},"source":{"ts_ms":5},"x":[]}'
    found = read(delta_spark, "debezium-json", [
        event("c", MYSQL, after=ROW),
        {"schema": {"type": "struct"}, "payload": event("c", {"ts_ms": 5, "lsn": 7}, after=ROW)},
        event("d", {"ts_ms": 6, "lsn": 8}, before={"id": 1}),
        # What was there before all changes, whenever it was read.
        event("r", {"ts_ms": 50, "lsn": 6, "snapshot": "first"}, after=ROW),
        event("r", {"ts_ms": 50, "lsn": 6, "snapshot": "incremental"}, after=ROW),
        event("u", {"commit_lsn": "0000002a:00000758:0005", "event_serial_no": 1}, before=ROW, after=ROW),
        exact,
        # As Flink writes it.
        {"before": None, "after": ROW, "op": "c"},
    ])  # fmt: skip
    assert found == [
        [("insert", [5, [3, 154, 2], 0], 1, "x", "1.5000000000")],
        [("insert", [5, [7], 0], 1, "x", "1.5000000000")],
        [("delete", [6, [8], 0], 1, None, None)],
        [("snapshot", [None, [6], 0], 1, "x", "1.5000000000")],
        [("snapshot", [50, [6], 0], 1, "x", "1.5000000000")],
        [("update", [99, [42, 1880, 5, 1], 0], 1, "x", "1.5000000000")],
        [("update", [5, [], 0], 1, "x", "1.0000000001")],
        [("insert", [None, [], 0], 1, "x", "1.5000000000")],
    ]


def test_what_debezium_says_beside_rows(delta_spark: SparkSession) -> None:
    bodies = [
        None,
        b"",
        b"null",
        {"schema": None, "payload": None},
        {"ts_ms": 7},
        {"status": "BEGIN", "id": "1", "event_count": None},
        {"source": MYSQL, "ddl": "ALTER TABLE t", "databaseName": "d"},
        event("t", {"ts_ms": 7}),
        event("m", {"ts_ms": 7}, message={"prefix": "p"}),
    ]
    found = read(delta_spark, "debezium-json", bodies)
    words = ["tombstone"] * 4 + ["heartbeat", "transaction", "ddl", "truncate", "message"]
    assert [[row[0] for row in rows] for rows in found] == [[word] for word in words]
    assert {row[2] for rows in found for row in rows} == {None}
    # With a key that cannot be left aside.
    assert read(delta_spark, "debezium-json", bodies[-2:], ("id",))[0].startswith("TRUNCATE emptied the table there")


def test_bad_events_of_debezium(delta_spark: SparkSession) -> None:
    cases: list[tuple[Any, str]] = [
        (b"{", "the text is not JSON"),
        (b"[1]", "the text is not a JSON object"),
        (b"\xff", "the bytes are not text in UTF-8"),
        (b'{"op":"c"} {}', "something follows the JSON object"),
        ({}, "there is no op"),
        (event("x", {}), OPERATION),
        (event("c", {}, before=ROW), "there is no row in after, or of a delete in before"),
        (event("d", {}, after=ROW), "there is no row in after, or of a delete in before"),
        (event("c", {}, after={"id": "a", "name": "x"}), "the value of id is not of type bigint"),
        (event("c", {}, after={"id": 1}), "name is NOT NULL and has no value"),
        (event("c", {}, after=[ROW]), "the text is not a JSON object"),
        (event("c", {}, after={"name": "x"}), "id is NOT NULL and has no value"),
    ]
    found = read(delta_spark, "debezium-json", [body for body, _ in cases])
    assert found == [reason for _, reason in cases]
    assert read(delta_spark, "debezium-json", [event("d", {}, before={"name": "x"})], ("id",)) == [
        "id is NOT NULL and has no value"
    ]


def message(kind: str, *data: Any, **more: Any) -> dict[str, Any]:
    return {"data": list(data) or None, "type": kind, "es": 5, "ts": 6, "id": 7, "isDdl": False, "old": None, **more}


TEXTS = {"id": "1", "name": "", "price": "1.5", "at": "2024-01-02 03:04:05"}


def test_messages_of_canal(delta_spark: SparkSession) -> None:
    moved = message("UPDATE", TEXTS, {**TEXTS, "id": "3"}, old=[{"name": "y"}, {"id": "2"}])
    bodies = [
        message("INSERT", TEXTS, {**TEXTS, "id": "2"}),
        moved,
        message("DELETE", {"id": "1", "name": None}),
        message("ALTER", isDdl=True, sql="ALTER TABLE t"),
        message("TRUNCATE", isDdl=True),
        message("QUERY"),
        # As Flink writes it.
        {"data": [{"id": 1, "name": "x", "price": 1.0000000001}], "type": "INSERT"},
    ]
    row = (1, "", "1.5000000000")
    other = ["", "1.5000000000"]
    assert read(delta_spark, "canal-json", bodies) == [
        [("insert", [5, [6, 7], 0], *row), ("insert", [5, [6, 7], 1], 2, *other)],
        [("update", [5, [6, 7], 0], *row), ("update", [5, [6, 7], 1], 3, *other)],
        [("delete", [5, [6, 7], 0], 1, None, None)],
        [("ddl", [5, [6, 7], 0], None, None, None)],
        [("truncate", [5, [6, 7], 0], None, None, None)],
        [("query", [5, [6, 7], 0], None, None, None)],
        [("insert", [None, [], 0], 1, "x", "1.0000000001")],
    ]
    # With a key the row that had the former one is deleted.
    assert read(delta_spark, "canal-json", [moved, bodies[4]], ("id",)) == [
        [
            ("delete", [5, [6, 7], 1], 2, *other),
            ("update", [5, [6, 7], 0], *row),
            ("update", [5, [6, 7], 1], 3, *other),
        ],
        "TRUNCATE emptied the table there; empty this one by hand",
    ]


def test_bad_messages_of_canal(delta_spark: SparkSession) -> None:
    cases: list[tuple[Any, str]] = [
        (b"", "the record is empty"),
        (None, "the record is null"),
        (b"{", "the text is not JSON"),
        ({"data": [TEXTS]}, "there is no type"),
        (message("INSERT"), "there are no rows in data"),
        (message("DELETE", data=[]), "there are no rows in data"),
        (message("INSERT", TEXTS, None), "a row in data is null"),
        (message("MERGE", TEXTS), "there are rows, and type is not INSERT, UPDATE or DELETE"),
        # One row makes the message bad.
        (message("INSERT", TEXTS, {**TEXTS, "id": "a"}), "the value of id is not of type bigint"),
        (message("INSERT", TEXTS, {**TEXTS, "name": None}), "name is NOT NULL and has no value"),
        (message("INSERT", {**TEXTS, "at": "0000-00-00 00:00:00"}), "the value of at is not of type timestamp"),
    ]
    assert read(delta_spark, "canal-json", [body for body, _ in cases]) == [reason for _, reason in cases]


def test_typed_has_a_row_of_each_change_and_of_each_bad_record(delta_spark: SparkSession) -> None:
    bodies = [json.dumps(message("INSERT", TEXTS, TEXTS)).encode(), b"x"]
    frame = delta_spark.createDataFrame([(n, body) for n, body in enumerate(bodies)], "n INT, value BINARY")
    with pinned(delta_spark):
        rows = typed(frame, "canal-json", DDL)
        assert rows.columns == ["id", "name", "price", "at", "change", "tubemq", "badReason"]
        found = rows.select("id", "change.operation", "tubemq.n", "badReason").orderBy("n").collect()
    assert [tuple(row) for row in found] == [(1, "insert", 0, None)] * 2 + [(None, None, 1, "the text is not JSON")]


def test_rows_of_a_record_that_are_read_again_are_in_the_target_all_or_none(delta_spark: SparkSession) -> None:
    schema = StructType.fromDDL("id INT")
    assert isinstance(schema, StructType)
    bodies = [json.dumps({"type": "INSERT", "data": [{"id": n}, {"id": n + 1}]}).encode() for n in range(3)]
    with pinned(delta_spark):
        rows = target_rows(RecordFormat("canal-json", schema).parse(source_rows(delta_spark, [*bodies, b"{}"])))
        assert [row.id for row in rows.select(F.col("id")).collect()] == [0, 1, 1, 2, 2, 3]
