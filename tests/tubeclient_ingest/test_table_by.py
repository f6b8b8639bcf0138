"""Which table a record is for, by what it says of itself; and what the tables are called."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient_ingest.settings.group_settings import defines, of_stream, takes, target_of
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.load_settings import load_settings
from tubeclient_ingest.settings.table_by import COUNTS, REST, StreamId, TableBy
from tubeclient_ingest.tasks.staging import Routing, Staged, columns_by_stream

TYPED = {"schema": "id BIGINT"}


def job(table_by: str, **more: Any) -> IngestSettings:
    given = {"master_servers": "m:1", "consumer_group": "g", "topics": ["t"], "table_by": table_by}
    if more.get("format") not in (None, "raw") and "schema" not in more:
        given |= TYPED
    return load_settings(None, {"target": "/lake/{stream}", **given, **more})


def names(table_by: str, *values: Any, **more: Any) -> list[str | None]:
    """Of messages with these bodies: JSON, or as they are."""
    found = TableBy.of(job(table_by, **more))
    assert found is not None
    bodies = [one if isinstance(one, bytes) or one is None else json.dumps(one).encode() for one in values]
    batch = pa.RecordBatch.from_pydict({"value": pa.array(bodies, pa.binary())})
    result: list[str | None] = pickle.loads(pickle.dumps(found)).names()(batch).to_pylist()
    return result


def test_a_topic_a_tag_and_an_attribute_name_tables() -> None:
    texts = pa.map_(pa.string(), pa.string())
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["a", "b", "c", "d"],
            "messageType": ["x", None, "_y", "z/../q"],
            "attributes": pa.array([[("k", "v"), ("l", "w")], [], None, [("k", "v\n")]], texts),
        }
    )
    for table_by, expected in (
        ("topic", ["a", "b", "c", "d"]),
        ("tag", ["x", None, None, None]),
        ("attribute.k", ["v", None, None, None]),
    ):
        found = TableBy.of(job(table_by))
        assert found is not None
        assert found.names()(batch).to_pylist() == expected
    assert job("attribute.k").options("earliest")["columns"] == "*,attributes"
    for table_by, lacking in (
        ("topic", "partitionKey, topic, messageTime"),
        ("attribute.k", "partitionKey, attributes, messageTime"),
    ):
        with pytest.raises(ConfigurationError, match=f"option columns lacks {lacking}, which give a row's table"):
            job(table_by, source_options={"columns": "value"})
    with pytest.raises(ConfigurationError, match="option columns lacks attributes, which"):
        job("attribute.k", source_options={"columns": "*"})


def test_the_text_says_all_that_gives_names() -> None:
    """It is kept with the tables, and a job with another one is refused."""

    def text(table_by: str, **more: Any) -> str:
        found = TableBy.of(job(table_by, **more))
        assert found is not None
        return found.text

    assert text("topic") == "table-by topic"
    assert text("attribute.k") == "table-by attribute.k"
    json = {"format": "json", "schema": "id INT"}
    assert text("$.a.b", **json) == text("$.a.b", encoding="utf8", **json) == "table-by $.a.b, utf-8"
    lenient = {"allowSingleQuotes": "true", "allowComments": "true", "nullValue": ""}
    assert text("$.a", **json, format_options={"allowComments": "true"}) == "table-by $.a, utf-8, allowComments=true"
    del lenient["nullValue"]
    packs = {"source_options": {"Payload": "AUTO"}}
    assert text("$.a", **json, **packs) == "table-by $.a, utf-8, payload=auto"
    assert text("attribute.k", **packs) == text("attribute.k")  # the message has it, and not the record
    found = text("$.a", **json, encoding="GBK", format_options=lenient)
    assert found == "table-by $.a, gbk, allowComments=true, allowSingleQuotes=true"
    canal = text("database.table", format="canal-json", schema="id INT")
    assert canal == "table-by database.table, canal-json, utf-8"


def test_a_field_of_json_names_tables() -> None:
    values = [{"a": {"b": "x"}}, {"a": {"b": 7}}, {"a": {"b": "../x"}}, {"a": {"b": None}}, {"a": 1}, {}, [1]]
    assert names("$.a.b", *values, b"", b"no", None, b'{"a":{"b":"x"},"a":{"b":"y"}}') == ["x", "7", *[None] * 9]
    assert names("$.a", {"a": "x.y"}, {"b": {"a": "z"}, "a": "w"}, format="json") == ["x.y", "w"]
    lenient = {"format": "json", "format_options": {"allowSingleQuotes": "true"}}
    assert names("$.a", b"{'a': 'x'}", **lenient) == ["x"]
    assert names("$.a", '{"a": "x"}'.encode("utf-16"), format="json", encoding="UTF-16") == ["x"]


def canal(database: Any, table: Any, **more: Any) -> dict[str, Any]:
    return {"database": database, "table": table, "type": "INSERT", "data": [{"id": "1", "table": "no"}], **more}


def test_canals_messages_name_their_database_and_table() -> None:
    how = {"format": "canal-json"}
    ddl = canal("shop", "orders", isDdl=True, sql="ALTER TABLE clicks ...")
    others = [canal(None, "a"), canal("a.b", "c"), canal("shop", "a b"), canal("_x", "a"), {"type": "QUERY"}]
    found = names("database.table", canal("shop", "orders"), ddl, canal("s", "_t"), *others, b"no", **how)
    assert found == ["shop.orders", "shop.orders", "s._t", *[None] * 6]
    assert names("table", canal("shop_00", "orders"), canal("shop_01", "orders"), **how) == ["orders", "orders"]


def debezium(op: str = "c", **source: Any) -> dict[str, Any]:
    return {"op": op, "after": {"id": 1, "source": "no"}, "source": source}


@pytest.mark.parametrize("is_beside_schema", [False, True])
def test_debezium_events(is_beside_schema: bool) -> None:
    """Debezium's events name their database, schema, and table, and others name no table."""

    def event(**source: Any) -> Any:
        plain = debezium(**source)
        return {"schema": {"type": "struct", "name": "x"}, "payload": plain} if is_beside_schema else plain

    how = {"format": "debezium-json"}
    mysql, postgres = event(db="shop", table="orders"), event(db="shop", schema="public", table="orders")
    heartbeat, tombstone = {"ts_ms": 1}, None
    found = names("database.table", mysql, postgres, heartbeat, tombstone, event(db="shop", table=None), **how)
    assert found == ["shop.orders", "shop.orders", None, None, None]
    found = names("database.schema.table", mysql, postgres, event(db="a", schema="b.c", table="d"), **how)
    assert found == [None, "shop.public.orders", None]
    assert names("schema.table", postgres, **how) == ["public.orders"]


def test_columns_in_events_by_stream() -> None:
    """Columns in events apply to their own stream, whichever tables get the rows."""
    found = TableBy.of(job("database.table", format="canal-json", schema=None))
    assert found is not None
    events = [
        canal("shop", "a", mysqlType={"id": "int"}),
        canal("shop", "b", mysqlType={"id": "int"}),
        canal("shop", "a", mysqlType={"id": "int", "n": "date"}),
        canal("shop", "a"),
        canal("no table", "", mysqlType={"id": "int"}),
    ]
    batch = pa.RecordBatch.from_pydict(
        {"value": [json.dumps(one).encode() for one in events], "partitionKey": ["p", "p", "q", "p", "p"]}
    )
    both = {'[{"id": "INT"}, null]', '[{"id": "INT", "n": "DATE"}, null]'}
    assert found.columns_of()(batch, found.names()(batch)) == {"shop.a": both, "shop.b": {'[{"id": "INT"}, null]'}}
    # Of a stream that is defined by now, rows of before are for the rest.
    routing = Routing(found, "_rest", older={"shop.a": frozenset({"p"})})
    parts = [(table, stream, columns) for table, stream, _, columns in routing.parts([batch, batch]) if columns]
    assert parts == [("shop.a", "shop.a", both), ("shop.b", "shop.b", {'[{"id": "INT"}, null]'})] * 2
    of_two = [Staged(1, columns={"shop.a": frozenset({one})}) for one in both]
    assert columns_by_stream(of_two) == {"shop.a": both}


def test_what_events_say_of_keys() -> None:
    keyed = {"schema": None, "key": ["pkNames"]}
    found = TableBy.of(job("database.table", format="canal-json", **keyed))
    assert found is not None
    types = {"mysqlType": {"id": "int"}}
    pk_names: list[Any] = [["id"], ["id"], ["b", "a"], None, [], [None], "id", ["é "]]
    events = [canal("shop", "a", pkNames=one, **types) for one in pk_names]
    ddl = canal("shop", "ddl", isDdl=True, mysqlType=None, pkNames=None) | {"type": "ALTER"}
    of_ddl = ddl | {"mysqlType": {"id": "int"}}
    others = [canal("s", "no_types"), ddl, of_ddl, {**canal("s", "lower", pkNames=["id"]), "type": "insert"}]
    batch = pa.RecordBatch.from_pydict({"value": [json.dumps(one).encode() for one in (*events, *others)]})
    said = found.columns_of()(batch, found.names()(batch))
    keys = {tuple(json.loads(one)[1]) for one in said.pop("shop.a")}
    assert keys == {("id",), ("b", "a"), (), ("é ",)}
    assert said == {"s.no_types": {"[{}, []]"}, "shop.ddl": {'[{"id": "INT"}, null]'}, "s.lower": {'[{}, ["id"]]'}}
    with pytest.raises(
        ConfigurationError, match="key is pkNames, which needs columns from the events; leave schema out"
    ):
        TableBy.of(job("database.table", format="canal-json", **keyed | {"schema": "id INT"}))
    with pytest.raises(ConfigurationError, match="key is pkNames, but events of debezium-json do not name the key"):
        TableBy.of(job("database.table", format="debezium-json", **keyed))


def test_row_with_a_payload_field() -> None:
    """As the decoder has it: what has `op` is the event."""
    inner = debezium(db="other", table="other")
    assert names("database.table", {**debezium(db="shop", table="t"), "payload": inner}, format="debezium-json") == [
        "shop.t"
    ]


part = st.text(st.sampled_from("ab._-/`\n \0é"), max_size=4)


@given(first=st.tuples(part, part), second=st.tuples(part, part))
def test_no_two_tables_share_a_target(first: tuple[str, str], second: tuple[str, str]) -> None:
    """Two tables of a database never share a target, nor does one with the job's own tables."""
    found = names("database.table", canal(*first), canal(*second), format="canal-json")
    if None in found or first == second:
        return
    assert found[0] != found[1]
    for target in (
        "/lake/{database}/{table}",
        "/lake/{stream}",
        "main.{database}.{table}",
        "/lake/x{table}/{database}y",
    ):
        settings = job("database.table", format="canal-json", target=target)
        one, other, counts, rest = (target_of(settings, StreamId(name or "")) for name in (*found, COUNTS, REST))
        assert len({one, other, counts, rest}) == 4


def test_what_the_targets_are_called() -> None:
    settings = job("database.table", format="canal-json", target="main.{database}.t_{table}")
    assert target_of(settings, StreamId("shop.orders")) == "main.shop.t_orders"
    assert target_of(settings, StreamId("shop-eu._x")) == "main.`shop-eu`.t__x"
    assert target_of(settings, COUNTS) == "main._tubeclient.t__counts"
    settings = job("database.schema.table", format="debezium-json", target="/lake/{database}/{schema}/{table}")
    assert target_of(settings, REST) == "/lake/_tubeclient/_tubeclient/_rest"
    assert target_of(job("tag", target="/lake/{tag}"), StreamId("x")) == "/lake/x"
    alone = of_stream(settings, StreamId("a.b.c"))
    assert (alone.target, alone.table_by, alone.has_streams) == ("/lake/a/b/c", None, False)
    assert of_stream(job("attribute.k"), REST).source_options == {"columns": "*,attributes"}


def test_file_of_each_table(tmp_path: Any) -> None:
    """Each table takes the schema file of its own name, and one without a file is undefined."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "orders.ddl").write_text("id INT")
    files = f"{tmp_path}/{{database}}/{{table}}.ddl"
    settings = job("database.table", format="canal-json", schema=files)
    assert [defines(settings, StreamId(one)) for one in ("shop.orders", "shop.clicks")] == [True, False]
    assert of_stream(settings, StreamId("shop.orders")).schema == f"{tmp_path}/shop/orders.ddl"


@pytest.mark.parametrize(
    ("streams", "taken"),
    [
        (("shop.*",), ["shop.orders", "shop.tmp_1"]),
        (("shop.*", "!shop.tmp_*"), ["shop.orders"]),
        (("!*.tmp_?", "!crm.users"), ["shop.orders"]),
        (("shop.orders",), ["shop.orders"]),
        (("SHOP.*",), []),
        ((), ["shop.orders", "shop.tmp_1", "crm.users"]),
    ],
)
def test_patterns_choose_streams(streams: tuple[str, ...], taken: list[str]) -> None:
    settings = job("database.table", format="canal-json", streams=streams)
    there = ["shop.orders", "shop.tmp_1", "crm.users"]
    assert [one for one in there if takes(settings, StreamId(one))] == taken
    assert takes(settings, REST)


@pytest.mark.parametrize(
    ("table_by", "more", "message"),
    [
        ("database", {"format": "canal-json"}, "table-by is 'database'; write topic, tag, attribute.NAME"),
        ("table.database", {"format": "canal-json"}, "table-by is 'table.database'; write topic"),
        ("$.", {}, r"table-by is '\$\.'; write topic"),
        ("attribute.", {}, "table-by is 'attribute.'; write topic"),
        ("database.table", {}, "table-by is database.table, but the format is raw; that is for canal-json, debezium"),
        ("$.a", {"format": "csv"}, r"table-by is \$.a, but the format is csv; that is for raw, json"),
        ("database.schema.table", {"format": "canal-json"}, "canal-json do not name a schema; leave it out"),
        ("topic", {"target": "/lake/t"}, r"target is /lake/t for all streams; add \{topic\} where that belongs"),
        ("$.a", {"target": "/lake/t"}, r"target is /lake/t for all streams; add \{stream\} where"),
        (
            "database.table",
            {"format": "canal-json", "target": "/lake/{table}"},
            r"add \{database\} where that belongs, or \{stream\} for the whole name",
        ),
        (
            "database.table",
            {"format": "canal-json", "target": "/lake/{database}_{table}"},
            "so two streams could get the same table; write . or / between its parts",
        ),
        (
            "database.table",
            {"format": "canal-json", "target": "main.lake.{stream}"},
            r"names cannot have dots, which \{stream\} has here; write \{database\} and \{table\}",
        ),
        ("topic", {"inlong_manager": "http://m:1"}, "inlong-manager needs inlong-group; name the group"),
        ("topic", {"audit_proxies": "m:1"}, "audit-proxies needs inlong-group"),
        ("topic", {"streams": ["!_rest"]}, "streams names _rest, which is not a stream"),
    ],
)
def test_what_cannot_be_meant_is_told_at_the_start(table_by: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        job(table_by, **more)
