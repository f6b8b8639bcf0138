"""Messages of Debezium and Canal by Hypothesis: mostly good, some of them changed afterwards; and any JSON of their
names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.tubeclient.records.changing import MYSQL, PLACEHOLDER, UUID
from tests.tubeclient.records.generated import ZONES, Case, mostly, mutated
from tests.tubeclient.records.reading import LOCAL, MOMENT, VARIANT, spec

_PLAIN: dict[str, Any] = {
    "id": pa.int64(),
    "name": pa.string(),
    "price": pa.decimal128(10, 2),
    "day": pa.date32(),
    "at": MOMENT,
    "local": LOCAL,
    "ok": pa.bool_(),
    "rate": pa.float64(),
}
_NESTED: dict[str, Any] = {
    **_PLAIN,
    "raw": pa.binary(),
    "many": pa.list_(pa.string()),
    "by_name": pa.map_(pa.string(), pa.string()),
    "any": VARIANT,
}
_TEXTS = [
    "x",
    "",
    "ü",
    "2024-01-02",
    "2024-01-02 03:04:05",
    "2024-01-02T03:04:05Z",
    "1",
    "0",
    "-1.50",
    "1.005",
    "AfQ=",
    "AfR=",
    "AAA",
]
_PLACEHOLDERS = [
    PLACEHOLDER,
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    {PLACEHOLDER: PLACEHOLDER},
    [PLACEHOLDER],
    [*PLACEHOLDER.encode()],
    {PLACEHOLDER: 1},
    [PLACEHOLDER, PLACEHOLDER],
]
_LOGICAL = [
    *(
        "io.debezium.time.Date",
        "io.debezium.time.Timestamp",
        "io.debezium.time.MicroTimestamp",
        "io.debezium.data.Json",
    ),
    *("io.debezium.time.NanoTimestamp", "org.apache.kafka.connect.data.Decimal", "io.debezium.time.ZonedTimestamp"),
]
_GOOD: dict[str, list[Any]] = {
    "id": [1, 2, 3],
    "name": ["x", "y", 'q"', 5],
    "price": [1.5, "2.25", -3, "AfQ="],
    "day": ["2024-01-02", 19724],
    "at": ["2024-01-02T03:04:05Z", "2024-10-27 02:30:00", 1_700_000_000_123_456],
    "local": ["2024-01-02 03:04:05", -1, 1_700_000_000_000, 86_400_000_000],
    "ok": [True, False],
    "rate": [0.5, -1e3],
    "raw": ["AAE=", ""],
    "many": [[], ["x"], ["x", None]],
    "by_name": [{}, {"k": "v"}, {"k": "v", "l": None}],
    "any": [{"a": [1]}, "x", 1, None],
}
_ODD = st.sampled_from([None, 1.25, True, [], {}, 1 << 64, *_TEXTS, *_PLACEHOLDERS])
_NUMBERS = st.sampled_from([None, 5, "7", 1 << 62, "x", 1.5, -1])
_SOURCES: list[dict[str, Any]] = [
    MYSQL,
    {**MYSQL, "gtid": f"{UUID}:23"},
    {**MYSQL, "gtid": "0-1-100", "server_id": 0, "snapshot": "true"},
    {"connector": "postgresql", "name": "s", "ts_ms": 5, "lsn": 9, "sequence": '["7","9"]', "snapshot": "false"},
    {"connector": "postgresql", "name": "s", "lsn": 9, "sequence": '[null,"9"]', "snapshot": "last"},
    {"connector": "oracle", "name": "s", "scn": "5", "commit_scn": "7", "ts_ms": 5},
    {"connector": "sqlserver", "commit_lsn": "0000002a:00000758:0005", "change_lsn": "0000002a:00000758:0003"},
    {"table": "t"},
    {},
]


def _number(usual: int) -> st.SearchStrategy[Any]:
    return st.integers(0, 15).flatmap(lambda chance: _NUMBERS if chance == 7 else st.just(usual))


@st.composite
def _row(draw: Callable[..., Any], names: list[str], *, in_texts: bool = False) -> dict[str, Any]:
    row = {}
    for name in [*names, "more"]:
        if draw(st.integers(0, 15)):
            value = draw(st.sampled_from(_GOOD.get(name, [1]))) if draw(st.integers(0, 9)) else draw(_ODD)
            row[name] = str(value) if in_texts and value is not None and draw(st.integers(0, 9)) else value
    return row


def _schema(draw: Callable[..., Any], names: list[str]) -> dict[str, Any]:
    """An envelope's."""

    def fields() -> list[Any]:
        one = [
            {"field": name, "name": draw(st.sampled_from(_LOGICAL)), "parameters": {"scale": "2"}}
            for name in names
            if draw(st.booleans())
        ]
        return [*one, {"field": "name", "type": "string"}]

    before = fields()
    after = before if draw(st.integers(0, 7)) else fields()
    return {"fields": [{"field": "before", "fields": before}, {"field": "after", "fields": after}]}


@st.composite
def _event(draw: Callable[..., Any], names: list[str]) -> Any:
    op = draw(mostly(st.sampled_from("ccruuudd"), st.sampled_from(["t", "m", "x", ""])))
    before, after = draw(_row(names)), draw(_row(names))
    if draw(st.booleans()):
        after |= {name: value for name, value in before.items() if name == "id"}
    source = {**draw(st.sampled_from(_SOURCES))}
    if draw(st.integers(0, 7)) == 0:
        source[draw(st.sampled_from(["pos", "lsn", "row", "ts_ms", "file", "gtid", "sequence"]))] = draw(_NUMBERS)
    event = {
        "before": None if op in "cr" or (draw(st.booleans()) and op != "d") else before,
        "after": None if op == "d" else after,
        "source": source,
        "op": op,
        "ts_ms": draw(_number(99)),
    }
    if not draw(st.integers(0, 3)):
        event["transaction"] = draw(st.sampled_from([None, {}, {"total_order": 4}, {"id": "a", "total_order": "5"}, 3]))
    wrapping = draw(st.integers(0, 5))
    if wrapping > 1:
        return event
    return {"schema": _schema(draw, names) if wrapping else None, "payload": event}


@st.composite
def _message(draw: Callable[..., Any], names: list[str]) -> Any:
    rows = draw(st.lists(_row(names, in_texts=True), max_size=3))
    old = [draw(st.sampled_from([None, {}, {"name": "z"}, row]) | _row(names, in_texts=True)) for row in rows]
    more = {"gtid": draw(st.sampled_from([None, "", f"{UUID}:5", "0-1-7", "x"]))} if draw(st.booleans()) else {}
    return {
        "data": rows,
        "type": draw(mostly(st.sampled_from(["INSERT", "UPDATE", "update", "DELETE"]), st.sampled_from(["ALTER", ""]))),
        "es": draw(_number(5)),
        "ts": draw(_number(6)),
        "id": draw(_number(7)),
        "isDdl": draw(st.sampled_from([False] * 9 + [True])),
        "old": draw(st.sampled_from([old, old, None, old[:1]])),
        **more,
    }


@st.composite
def changes_cases(draw: Callable[..., Any]) -> Case:
    kind = draw(st.sampled_from(["debezium-json", "canal-json"]))
    columns = _NESTED if kind == "debezium-json" else _PLAIN
    names = ["id", *draw(st.lists(st.sampled_from([*columns][1:]), max_size=4, unique=True))]
    required = tuple(name for name in names if draw(st.integers(0, 3)) == 0)
    keys = ("id",) if draw(st.booleans()) else ()
    zone = draw(st.sampled_from(ZONES))
    one = spec(kind, {name: columns[name] for name in names}, required, keys=keys, time_zone=zone)
    whole = _event(names) if kind == "debezium-json" else _message(names)
    texts = [json.dumps(draw(whole), ensure_ascii=draw(st.booleans())) for _ in range(draw(st.integers(1, 5)))]
    return Case(one, [draw(mutated(text.encode())) for text in texts])


_NAMES = (
    *("payload", "schema", "op", "before", "after", "source", "ts_ms", "status", "event_count", "databaseName", "ddl"),
    *("connector", "name", "db", "snapshot", "server_id", "gtid", "file", "pos", "row", "lsn", "sequence", "scn"),
    *("commit_scn", "rs_id", "ssn", "commit_lsn", "change_lsn", "event_serial_no", "commit_ts"),
    *("fields", "field", "items", "values", "parameters", "scale", "length", "value"),
    *("data", "old", "type", "isDdl", "es", "ts", *_NESTED),
)
_WORDS = (
    *("c", "r", "u", "d", "t", "m", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "BEGIN", "mysql", "postgresql", "last"),
    *("true", "0000002a:00000758:0005", '["7","9"]', f"{UUID}:5", "0-1-7", "0x1.2.3", "mysql-bin.000003", *_LOGICAL),
    *("io.debezium.data.Bits", "io.debezium.data.VariableScaleDecimal", "io.debezium.time.IsoDate", *_TEXTS),
    *("before", "after", "struct", "array"),
)
_SCALAR = st.sampled_from([json.dumps(one) for one in (*_WORDS, *_PLACEHOLDERS, *range(-1, 4), None, True, 1.5)]) | (
    st.integers() | st.text(max_size=5)
).map(json.dumps)


def _pair(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from([*_NESTED]) | st.sampled_from(_NAMES)
    return st.tuples(names, value).map(lambda pair: f'"{pair[0]}":{pair[1]}')


def _list_or_object(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items, pairs = st.lists(value, max_size=3), st.lists(_pair(value), max_size=5)
    return items.map(lambda all: f"[{','.join(all)}]") | pairs.map(lambda all: f"{{{','.join(all)}}}")


_ANY = st.recursive(_SCALAR, _list_or_object, max_leaves=8)
_OF_KIND = st.sampled_from(["c", "r", "u", "d", "t", "m", "INSERT", "UPDATE", "DELETE", "QUERY"])


@st.composite
def _any_change(draw: Callable[..., Any]) -> bytes:
    """Bytes, most of them JSON with the names that messages have, in places where they may not be, and twice."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=20))  # type: ignore[no-any-return]
    kind, pairs = draw(_OF_KIND), draw(st.lists(_pair(_ANY), max_size=2))
    rows = draw(st.sampled_from([("before", "after", "source"), ("after", "source"), ("data", "old"), ("data",)]))
    parts = [f'"{name}":{draw(_list_or_object(_ANY))}' for name in rows]
    text = ",".join([f'"op":"{kind}"', f'"type":"{kind}"', *parts, *pairs])
    return draw(mutated(f"{{{text}}}".encode()))  # type: ignore[no-any-return]


@st.composite
def any_changes_cases(draw: Callable[..., Any]) -> Case:
    one = draw(changes_cases()).spec
    return Case(one, draw(st.lists(_any_change(), min_size=1, max_size=4)))
