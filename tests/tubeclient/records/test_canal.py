"""Messages of Canal: the rows of a statement, whose values are texts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.tubeclient.records.changing import UUID, canal, changes, message, orders, short
from tests.tubeclient.records.reading import MOMENT

TEXTS = {"id": "1", "name": "", "price": "1.5"}
ROW = 1, "", "1.5000000000"
STRICT = canal({"id": pa.int64(), "name": pa.string(), "at": MOMENT}, ("id", "name"))


def test_messages() -> None:
    bodies = [
        message("INSERT", TEXTS, {**TEXTS, "id": "2"}),
        message("DELETE", {"id": "1", "name": None, "price": None}),
        message("ALTER", isDdl=True, sql="ALTER TABLE t"),
        message("TRUNCATE", isDdl=True),
        message("QUERY"),
        # As Flink writes it.
        {"data": [{"id": 1, "name": "x", "price": 1.0000000001}], "type": "INSERT"},
    ]
    assert short(canal(), *bodies) == [
        [("insert", *ROW), ("insert", 2, *ROW[1:])],
        [("delete", 1, None, None)],
        [("ddl", None, None, None)],
        [("truncate", None, None, None)],
        [("query", None, None, None)],
        [("insert", 1, "x", "1.0000000001")],
    ]
    assert short(canal(keys=("id",)), bodies[3]) == [
        "TRUNCATE emptied the table in the database; empty this one by hand"
    ]


def test_rows_have_their_places_in_the_message() -> None:
    [rows] = changes(canal(keys=("id",)), message("UPDATE", TEXTS, {**TEXTS, "id": "3"}, old=[{}, {"id": "2"}]))
    assert [(row["change"]["operation"], row["id"], row["change"]["sequence"]["row"]) for row in rows] == [
        ("update", 1, 0),
        ("delete", 2, 1),
        ("update", 3, 1),
    ]


def test_key_update_deletes_former_row() -> None:
    """An update that changes the key also deletes the row with the former key."""
    moved = message("UPDATE", TEXTS, {**TEXTS, "id": "3"}, old=[{"name": "y"}, {"id": "2", "name": "z"}])
    first, second = ("update", *ROW), ("update", 3, *ROW[1:])
    assert short(canal(keys=("id",)), moved) == [[first, ("delete", 2, "z", "1.5000000000"), second]]
    assert short(canal(), moved) == [[first, second]]
    # UPDATE t SET id = id + 1 ORDER BY id DESC: the row that comes into a key is behind the one that leaves it.
    shifted = message("UPDATE", {"id": "3"}, {"id": "2"}, old=[{"id": "2"}, {"id": "1"}])
    only = canal({"id": pa.int64()}, keys=("id",))
    assert short(only, shifted) == [[("delete", 2), ("update", 3), ("delete", 1), ("update", 2)]]
    for old in (None, [], [None, None], [{"id": "1"}, {"id": "3"}], [{"id": None}, {"id": "03"}]):
        assert short(canal(keys=("id",)), {**moved, "old": old}) == [[first, second]]


def test_columns_that_mysql_left_out_of_a_row() -> None:
    """binlog_row_image=NOBLOB leaves out BLOB and TEXT, and MINIMAL all that is not needed: of an update the key too,
    as alibaba/canal's issue 2460 shows."""
    minimal = {
        "data": [{"name": "20"}],
        "database": "d",
        "es": 1575978834000,
        "id": 56782,
        "isDdl": False,
        "mysqlType": {"name": "int"},
        "old": [{"name": None}],
        "pkNames": None,
        "sql": "",
        "table": "t",
        "sqlType": {"name": 4},
        "ts": 1575978834850,
        "type": "UPDATE",
    }
    assert short(canal(), minimal) == [[("update", None, "20", None, ["id", "price"])]]
    assert short(canal(keys=("id",)), minimal) == ["id names the row, but is absent"]
    noblob = message("UPDATE", {"id": "1", "price": None})
    assert short(canal(required=("name",), keys=("id",)), noblob) == [[("update", 1, None, None, ["name"])]]
    assert short(canal(required=("name",)), message("INSERT", {"id": "1"})) == ["name is NOT NULL but has no value"]


def test_a_snapshot_is_none_of_canals() -> None:
    """It would be a row without values, also where there is a key."""
    assert changes(STRICT, message("SNAPSHOT")) == ["type is not one of Canal's"]


def test_bad_messages() -> None:
    cases: list[tuple[Any, str]] = [
        (b"", "the record is empty"),
        (None, "the record is null"),
        (b"{", "the text is not JSON"),
        ({"data": [TEXTS]}, "type is missing"),
        (message("INSERT"), "there are no rows in data"),
        (message("DELETE", data=[]), "there are no rows in data"),
        (message("INSERT", TEXTS, None), "a row in data is null"),
        (message("INSERT", TEXTS, 1), "a row in data is not an object"),
        (message("INSERT", data={"id": "1"}), "data is not a list"),
        (message("UPDATE", TEXTS, old={"id": "1"}), "old is not a list"),
        (message("MERGE", TEXTS), "there are rows, but type is not INSERT, UPDATE or DELETE"),
        # One row makes the message bad.
        (message("INSERT", TEXTS, {**TEXTS, "id": "a"}), "the value of id is not of type bigint"),
        (message("INSERT", TEXTS, {**TEXTS, "name": None}), "name is NOT NULL but has no value"),
        (message("INSERT", {**TEXTS, "at": "0000-00-00 00:00:00"}), "the value of at is not of type timestamp"),
        (message("INSERT", {**TEXTS, "at": {}}), "the value of at is not of type timestamp"),
        (message("INSERT", TEXTS, es="soon"), "es is not a 64-bit whole number"),
    ]
    assert short(STRICT, *(body for body, _ in cases)) == [reason for _, reason in cases]
    assert short(canal(keys=("id",)), message("DELETE", {"id": None})) == ["id is NOT NULL but has no value"]


def test_the_order_of_messages() -> None:
    """Canal's clock within its stream; the database's, in whole seconds, only between two logs."""
    assert orders(
        canal(),
        message("INSERT", TEXTS),
        message("INSERT", TEXTS, gtid=""),
        message("INSERT", TEXTS, gtid=f"{UUID}:23"),
        message("INSERT", TEXTS, gtid="0-1-100"),
        message("ALTER", isDdl=True),
        {"type": "INSERT", "data": [TEXTS]},
    ) == [
        (5, "canal", [6, 7]),
        (5, "canal", [6, 7]),
        (5, f"binlog {UUID}", [23, 6, 7]),
        (5, "domain 0", [100, 6, 7]),
        (5, "canal", [6, 7]),
        (None, None, []),
    ]
