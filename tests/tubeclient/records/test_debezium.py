"""Events of Debezium: what is a row, what was done to it, what is absent, and what is bad."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.tubeclient.records.changing import COLUMNS, MYSQL, PLACEHOLDER, ROW, changes, debezium, event, short
from tubeclient.errors import ConfigurationError
from tubeclient.records.decoder import Decoder

TRUNCATED = "TRUNCATE emptied the table in the database; empty this one by hand"


def test_events() -> None:
    exact = b'{"op":"u","after":{"id":1,"name":"x","price":1.0000000001},"source":{"ts_ms":5},"x":[]}'
    row = 1, "x", "1.5000000000"
    assert short(
        debezium(keys=("id",)),
        event("c", MYSQL, after=ROW),
        {"schema": {"type": "struct"}, "payload": event("c", after=ROW)},
        event("d", before=ROW),
        event("r", {"snapshot": "first"}, after=ROW),
        event("u", before=ROW, after=ROW),
        exact,
        # As Flink writes it.
        {"before": None, "after": ROW, "op": "c"},
    ) == [
        [("insert", *row)],
        [("insert", *row)],
        [("delete", *row)],
        [("snapshot", *row)],
        [("update", *row)],
        [("update", 1, "x", "1.0000000001")],
        [("insert", *row)],
    ]


def test_a_change_has_all_its_fields() -> None:
    assert changes(debezium({"id": pa.int64(), "name": pa.string()}), event("u", MYSQL, after={"id": 1})) == [
        [
            {
                "id": 1,
                "name": None,
                "change": {
                    "operation": "update",
                    "absent": ["name"],
                    "sequence": {
                        "time": 5_000,
                        "log": "binlog mysql/shop/223344/mysql-bin",
                        "position": [3, 154],
                        "round": None,
                        "place": None,
                        "row": 0,
                    },
                },
            }
        ]
    ]


def test_what_has_no_row() -> None:
    ddl = {"source": MYSQL, "ts_ms": 7, "databaseName": "d", "schemaName": None, "ddl": None, "tableChanges": []}
    said: list[tuple[Any, str]] = [
        (None, "tombstone"),
        (b"", "tombstone"),
        (b"null", "tombstone"),
        ({"schema": None, "payload": None}, "tombstone"),
        ({"ts_ms": 7}, "heartbeat"),
        ({"schema": {}, "payload": {"ts_ms": 7}}, "heartbeat"),
        ({"status": "BEGIN", "id": "1", "event_count": None}, "transaction"),
        ({"status": "END", "id": "1", "event_count": 2, "data_collections": [], "ts_ms": 7}, "transaction"),
        ({"source": MYSQL, "ddl": "ALTER TABLE t", "databaseName": "d"}, "ddl"),
        (ddl, "ddl"),
        (event("t"), "truncate"),
        (event("m", message={"prefix": "p"}), "message"),
    ]
    found = short(debezium(), *(body for body, _ in said))
    assert found == [[(operation, None, None, None)] for _, operation in said]
    # With keys the rows would stay.
    assert short(debezium(keys=("id",)), event("t")) == [TRUNCATED]


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"id": 1, "name": "x", "ts_ms": 7},
        {"id": 1, "status": "BEGIN"},
        {"id": 1, "status": "open", "event_count": 3},
        {"status": "BEGIN", "id": 1, "event_count": None},
        {"source": "web", "ddl": "x", "databaseName": "d"},
        {"id": 1, "ddl": "x"},
        {"ts_ms": "7"},
        {"ts_ms": 7, "id": None},
        {"op": None, "ts_ms": 7},
        {"payload": None, "id": 1},
        {"payload": [1]},
        {"payload": {"id": 1, "name": "x"}, "schema": None},
        {"payload": "x"},
        ROW,
    ],
)
def test_row_without_envelope(row: Any) -> None:
    """A row without an envelope is bad, whatever its fields are called."""
    assert short(debezium(), row) == ["op is missing"]


def test_bad_events() -> None:
    cases: list[tuple[Any, str]] = [
        (b"{", "the text is not JSON"),
        (b"[1]", "the text is not a JSON object"),
        (b"\xff", "the bytes are not UTF-8 text"),
        (b'{"op":"c"} {}', "something follows the JSON object"),
        (b'{"op":"c","op":"d"}', "op appears twice"),
        (event("x"), "op is not one of Debezium's"),
        (event("c", before=ROW), "there is no row in after, or for a delete in before"),
        (event("d", after=ROW), "there is no row in after, or for a delete in before"),
        (event("c", after={"id": "a", "name": "x"}), "the value of id is not of type bigint"),
        (event("c", after={"id": 1}), "name is NOT NULL but has no value"),
        (event("r", after={"id": 1}), "name is NOT NULL but has no value"),
        (event("u", after={"id": 1, "name": None}), "name is NOT NULL but has no value"),
        (event("c", after={"id": 1, "name": PLACEHOLDER}), "name is NOT NULL but has no value"),
        (event("c", after=[ROW]), "after is not an object"),
        (event("u", after='{"id": 1}'), "after is not an object"),
        (event("c", after={"name": "x"}), "id is NOT NULL but has no value"),
        ({**event("c", after=ROW), "source": 1}, "source is not an object"),
        (event("c", {"pos": "x"}, after=ROW), "source.pos is not a 64-bit whole number"),
        (event("c", {"lsn": 2**63}, after=ROW), "source.lsn is not a 64-bit whole number"),
        (event("c", {"ts_ms": 1.5}, after=ROW), "source.ts_ms is not a 64-bit whole number"),
        (event("c", {"commit_lsn": "2a:zz"}, after=ROW), "source.commit_lsn is not a 64-bit whole number"),
    ]
    strict = debezium(required=("id", "name"))
    assert short(strict, *(body for body, _ in cases)) == [reason for _, reason in cases]


def test_no_name_of_a_row_without_an_envelope_is_shown() -> None:
    found = changes(debezium(), b'{"secret":1,"secret":2}', b'{"payload":{"secret":1,"secret":2}}')
    assert found == ["a name appears twice"] * 2


def test_what_a_deleted_row_needs() -> None:
    strict: dict[str, Any] = {"required": ("id", "name")}
    body = event("d", before={"id": 1, "name": None, "price": None})
    for keys in ((), ("id",)):
        assert short(debezium(keys=keys, **strict), body) == [[("delete", 1, None, None)]]
    nameless = event("d", before={"name": "x"}), event("d", before={"id": None}), event("d", before={"id": PLACEHOLDER})
    assert short(debezium(keys=("id",), **strict), *nameless) == [
        "id names the row, but is absent",
        "id is NOT NULL but has no value",
        "id names the row, but is absent",
    ]
    assert short(debezium(**strict), nameless[0]) == [[("delete", None, "x", None, ["id", "price"])]]


def test_absent_is_not_null() -> None:
    strict = debezium(required=("name",), keys=("id",))
    assert short(
        strict,
        event("u", after={"id": 1}),
        event("u", after={"id": 1, "name": PLACEHOLDER, "price": None}),
        event("c", after={"id": 1, "name": "x"}),
    ) == [
        [("update", 1, None, None, ["name", "price"])],
        [("update", 1, None, None, ["name"])],
        [("insert", 1, "x", None, ["price"])],
    ]


BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), PLACEHOLDER),
        (pa.int64(), PLACEHOLDER),
        (pa.decimal128(10, 2), PLACEHOLDER),
        (pa.binary(), BASE64),
        (pa.binary(), "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565"),
        (pa.list_(pa.string()), [PLACEHOLDER]),
        (pa.list_(pa.binary()), [BASE64]),
        (pa.list_(pa.int64()), [*PLACEHOLDER.encode()]),
        (pa.list_(pa.date32()), [*PLACEHOLDER.encode()]),
        (pa.list_(pa.float64()), [float(byte) for byte in PLACEHOLDER.encode()]),
        (pa.list_(pa.decimal128(10, 2)), [str(byte) for byte in PLACEHOLDER.encode()]),
        # java.util.UUID.nameUUIDFromBytes of the placeholder, as a comment in Debezium's pull request 4778 has it.
        (pa.list_(pa.string()), ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        (pa.map_(pa.string(), pa.string()), {PLACEHOLDER: PLACEHOLDER}),
        (pa.string(), f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'),
    ],
)
def test_the_placeholder_of_each_type(kind: pa.DataType, value: Any) -> None:
    one = debezium({"id": pa.int64(), "v": kind})
    assert short(one, event("u", after={"id": 1, "v": value})) == [[("update", 1, None, ["v"])]]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.string()), [PLACEHOLDER, "x"]),
        (pa.list_(pa.int64()), [*PLACEHOLDER.encode()][:-1]),
        (pa.list_(pa.int64()), [*PLACEHOLDER[:-1].encode(), 1]),
        (pa.list_(pa.int64()), []),
        (pa.string(), f"{PLACEHOLDER} "),
        (pa.map_(pa.string(), pa.string()), {PLACEHOLDER: "x"}),
    ],
)
def test_what_is_not_quite_the_placeholder_is_a_value(kind: pa.DataType, value: Any) -> None:
    [[row]] = changes(debezium({"v": kind}), event("u", after={"v": value}))
    found = row["v"] if not isinstance(value, dict) else dict(row["v"])
    assert (found, row["change"]["absent"]) == (value, None)


def test_a_placeholder_of_ones_own() -> None:
    for option, text in (("none", "none"), ("hex:6e6f6e65", "none")):
        one = debezium({"v": pa.string()}, options={"unavailableValuePlaceholder": option})
        found = short(one, event("u", after={"v": text}), event("u", after={"v": PLACEHOLDER}))
        assert found == [[("update", None, ["v"])], [("update", PLACEHOLDER)]]
    for wrong in ("hex:6", "hex:", ""):
        with pytest.raises(ConfigurationError, match="unavailableValuePlaceholder"):
            Decoder(debezium(options={"unavailableValuePlaceholder": wrong}))


def test_key_update_deletes_former_row() -> None:
    """Debezium's connectors write a delete and an insert; what stands behind them, or an older one, does not always."""
    now = {"id": 2, "name": "y", "price": None}
    moved = event("u", before=ROW, after=now)
    deleted, updated = ("delete", 1, "x", "1.5000000000"), ("update", 2, "y", None)
    assert short(debezium(keys=("id",)), moved) == [[deleted, updated]]
    # PostgreSQL's `before` may have only the key.
    assert short(debezium(keys=("id",)), event("u", before={"id": 1}, after=now)) == [
        [("delete", 1, None, None, ["name", "price"]), updated]
    ]
    # What `before` does not know was not changed.
    for before in ({"name": "x"}, {"id": None, "name": "x"}, {"id": PLACEHOLDER}, {}, {"id": 2}, None):
        assert short(debezium(keys=("id",)), event("u", before=before, after=now)) == [[updated]]
    assert short(debezium(keys=("id", "name")), event("u", before={"name": "x"}, after=now)) == [
        [("delete", 2, "x", None, ["price"]), updated]
    ]
    # A log has no keys: an update is an update.
    assert short(debezium(), moved) == [[updated]]
    # The same key, however it is written.
    one = debezium({"id": pa.decimal128(5, 2)}, keys=("id",))
    assert short(one, event("u", before={"id": "1.5"}, after={"id": 1.50})) == [[("update", "1.50")]]


def test_each_part_of_a_key_is_needed() -> None:
    assert short(debezium(keys=("id", "name")), event("u", after={"id": 1, "name": None})) == [
        "name is NOT NULL but has no value"
    ]
    assert {**COLUMNS}.keys() == {"id", "name", "price"}
