"""The source behind a real Spark Connect server: server, client and tests are three processes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from embedded_tubemq.broker.offsets import Cursor
from tests.spark_source.connect_server import ConnectServer
from tests.spark_source.feed import Feed
from tests.spark_source.other_driver import HERE, CallFailed, OtherDriver, places, sink, texts
from tests.tubeclient.records.avro_records import avsc
from tests.waiting import wait_for
from tubeclient import reader_groups_of
from tubeclient.inlong import RecordGroup, encode_pack

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: ConnectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherDriver]:
    with OtherDriver(HERE, tmp_path_factory.mktemp("client"), {"spark.remote": server.url}) as driver:
        yield driver


@pytest.mark.merge
def test_batch_reads_views_and_writes(client: OtherDriver, feed: Feed, plain_feed: Feed) -> None:
    feed.send(60, tags=["web", "app"])
    assert client.call("read", options=feed.options()) == texts(feed.sent)
    client.call("make_view", name="positions", options=feed.options(readPositions="true"))
    by_store = "SELECT max(messagesBehindAtMost) AS behind FROM positions GROUP BY topic, brokerId, storeId"
    assert client.call("sql", text=f"SELECT count(*), sum(behind) FROM ({by_store})") == [[2, 60]]
    client.call("make_view", name="clicks", options=feed.options())
    assert client.call("sql", text="SELECT messageType, count(*) FROM clicks GROUP BY 1 ORDER BY 1") == [
        ["app", 30],
        ["web", 30],
    ]
    client.call("write", bodies=["5", "6", "z"], options=sink(plain_feed))
    assert client.call("read", options=plain_feed.options()) == ["5", "6", "z"]
    wrong = "the value of id is not of type int, at byte 0"
    found = client.call("typed", options=plain_feed.options(), schema="id INT")
    assert found == [[5, "5", None], [6, "6", None], [None, "z", wrong]]
    assert client.call("typed", options=plain_feed.options(), schema="id INT", encoding="GBK") == found


def test_records_that_are_no_text(client: OtherDriver, feed: Feed, tmp_path: Path) -> None:
    """Avro by the client's schema."""
    schema = avsc(tmp_path, {"type": "record", "name": "Text", "fields": [{"name": "text", "type": "string"}]})
    feed.send(3)
    found = client.call("typed", options=feed.options(), schema=schema, format="avro")
    assert [row[0] for row in found] == [None] * 3
    assert {row[2] for row in found} == {"the length of text is negative, at byte 0"}


@pytest.mark.merge
def test_streams_and_their_lag(client: OtherDriver, feed: Feed, tmp_path: Path) -> None:
    own = places(tmp_path)
    options = feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=80)
    feed.send(200)
    client.call("listen")
    try:
        assert client.run_available("q", options=options, **own) == [(0, 80), (1, 80), (2, 40)]
        wait_for(lambda: client.call("heard") == [[0, 120], [1, 40], [2, 0]], "the lag of three batches")
    finally:
        client.call("stop_listening")
    feed.wait_until_free()
    feed.send(50)
    assert client.run_available("q", options=options, **own) == [(3, 50)]
    feed.wait_until_free()
    assert client.call("rows", rows=own["rows"]) == texts(feed.sent)


def settings_of(feed: Feed, target: str, **more: str) -> dict[str, Any]:
    """Of a job that reads the feed's topic."""
    cluster = {"masterWebPort": str(feed.tube.master_web_port)}
    return {
        "master_servers": feed.tube.master_address,
        "consumer_group": f"{feed.topic}_group",
        "topics": [feed.topic],
        "target": target,
        "source_options": cluster,
        **more,
    }


def load(feed: Feed, records: Iterable[str]) -> None:
    feed.tube.load(feed.topic, [NewMessage(0, record.encode()) for record in records])


@pytest.mark.merge("True]")
@pytest.mark.parametrize("by_name", [False, True])
def test_ingest_over_connect(client: OtherDriver, feed: Feed, tmp_path: Path, by_name: bool) -> None:
    """Typed rows, bad records and their retry, and a second run that goes on; tables by path and by name."""
    rows, bad = (f"default.{feed.topic}_{name}" if by_name else str(tmp_path / name) for name in ("rows", "bad"))
    own = settings_of(feed, rows, format="json", schema="id BIGINT NOT NULL", bad_records=bad)
    load(feed, ['{"id": 1}', "2", '{"name": "x"}'])
    assert client.call("ingest", settings=own) == [1, 2]
    load(feed, ['{"id": 3}'])
    assert client.call("ingest", settings=own) == [1, 0]
    assert client.call("retry", settings={**own, "format": "csv"}) == [1, 1]
    assert client.call("bad_records", settings=own) == [["2", "retried"], ['{"name": "x"}', "bad"]]
    table = rows if by_name else f"delta.`{rows}`"
    assert client.call("sql", text=f"SELECT id FROM {table} ORDER BY id") == [[1], [2], [3]]


def test_the_newest_state_of_each_key_over_connect(client: OtherDriver, feed: Feed, tmp_path: Path) -> None:
    def change(op: str, ts_ms: int, **row: Any) -> str:
        return json.dumps({"op": op, "source": {"ts_ms": ts_ms}, "before" if op == "d" else "after": row})

    rows, bad = (str(tmp_path / name) for name in ("rows", "bad"))
    own = settings_of(feed, rows, format="debezium-json", schema="id BIGINT, v BIGINT NOT NULL", bad_records=bad)
    own["key"] = ["id"]
    load(feed, [change("c", 1, id=1, v=1), change("c", 1, id=2, v=1), change("u", 2, id=1, v=2)])
    load(feed, [change("u", 3, id=1, v=None)])
    assert client.call("ingest", settings=own) == [2, 1]
    load(feed, [change("d", 3, id=2), change("u", 1, id=1, v=3)])
    assert client.call("ingest", settings=own) == [2, 0]
    load(feed, [change("u", 2, id=2, v=4)])
    assert client.call("ingest", settings=own) == [0, 0]
    assert client.call("sql", text=f"SELECT id, v FROM delta.`{rows}`") == [[1, 2]]
    client.call("sql", text=f"ALTER TABLE delta.`{rows}` ALTER COLUMN v DROP NOT NULL")
    loose = {**own, "schema": "id BIGINT, v BIGINT"}
    assert client.call("retry", settings=loose) == [1, 0]
    assert client.call("sql", text=f"SELECT id, v FROM delta.`{rows}`") == [[1, None]]
    assert client.call("ingest", settings=loose) == [0, 0]


def test_a_whole_group_over_connect(client: OtherDriver, feed: Feed, tmp_path: Path) -> None:
    """Two starts, a table for each stream, and counts; then the newest state of each key of each stream."""

    def send(*numbers: int) -> None:
        records = [b'{"id": %d, "v": %d}' % (n % 10, n) for n in numbers]
        groups = [RecordGroup({"groupId": "shop", "streamId": name, "dt": "0"}, records) for name in ("a", "b", "c")]
        feed.tube.load(feed.topic, [NewMessage(0, encode_pack(groups, made_ms=0)), NewMessage(0, b"no pack")])

    def tables(of: dict[str, Any]) -> list[list[Any]]:
        """Of each stream: the first row, the last and how many there are."""
        places = [of["target"].replace("{stream}", name) for name in ("a", "b", "c")]
        query = "SELECT min(v), max(v), count(*) FROM delta.`{}`"
        return [row for place in places for row in client.call("sql", text=query.format(place))]

    columns = {"format": "json", "schema": "id BIGINT, v BIGINT NOT NULL"}
    log = settings_of(feed, str(tmp_path / "log" / "{stream}"), **columns, bad_records=str(tmp_path / "bad"))
    log |= {"inlong_group": "shop"}
    keyed = {**log, "target": str(tmp_path / "keyed" / "{stream}"), "consumer_group": "keyed"}
    keyed |= {"key": ["id"], "order_by": "v"}
    send(*range(20))
    assert client.call("ingest", settings=log) == [61, 0]  # what is no pack is in _rest
    send(*range(20, 25))
    assert client.call("ingest", settings=log) == [16, 0]
    assert tables(log) == [[0, 24, 25]] * 3
    counts = f"SELECT inlongStreamId, sum(received), sum(bad) FROM delta.`{tmp_path}/log/_counts` GROUP BY 1 ORDER BY 1"
    assert client.call("sql", text=counts) == [["_rest", 2, 0], ["a", 25, 0], ["b", 25, 0], ["c", 25, 0]]
    assert client.call("ingest", settings=keyed) == [77, 0]
    send(*range(5, 15), 30)
    assert client.call("ingest", settings=keyed) == [34, 0]
    assert tables(keyed) == [[15, 30, 10]] * 3


def test_databricks_notebook(client: OtherDriver, tmp_path: Path) -> None:
    """The Databricks notebook runs with table names and a secret that it never shows."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("orders")], users={"alice": "hunter2"}) as tube:
        tube.load("orders", [NewMessage(0, text.encode()) for text in ('{"id": 1, "name": "a"}', "2")])
        widgets = {
            "master_servers": tube.master_address,
            "master_web_port": str(tube.master_web_port),
            "consumer_group": "orders_etl",
            "topic": "orders",
            "schema": "id BIGINT NOT NULL, name STRING",
            "target": f"default.orders_{tmp_path.name}",
            "user": "alice",
            "secret_scope": "lake",
        }
        notebook = str(Path(__file__).parents[2] / "jobs" / "notebooks" / "ingest_databricks.py")
        rows, bad, ended, shown = client.call(
            "run_notebook", path=notebook, widgets=widgets, secrets={"lake/alice": "hunter2"}
        )
    assert rows.startswith("[Row(id=1, name='a', tubemq=Row(topic='orders'")
    assert "reason=" in bad
    assert (ended, "hunter2" in shown) == ("stopped; None", False)


def test_client_killed_during_ingest(client: OtherDriver, server: ConnectServer, feed: Feed, tmp_path: Path) -> None:
    """With kill -9, in the middle of a round. The server may end that round all the same, even beside the next run."""
    own = settings_of(feed, str(tmp_path / "rows"))
    load(feed, map(str, range(10)))
    with OtherDriver(HERE, tmp_path, {"spark.remote": server.url}) as other:
        other.call("start_ingest", settings={**own, "trigger": "0s"})
        wait_for(lambda: other.call("ingested") == 10, "the first rows", seconds=60)
        feed.tube.broker_faults().answer_delay_ms = 3_000
        load(feed, map(str, range(10, 20)))
        readers = [Cursor(group, feed.topic, 0) for group in reader_groups_of(own["consumer_group"])]
        wait_for(
            lambda: feed.tube.inspect(lambda broker: any(map(broker.ownership.owner, readers))),
            "a task to read",
            seconds=60,
        )
        other.kill()
    feed.tube.broker_faults().answer_delay_ms = 0
    feed.tube.restart_master()  # it forgets the nodes that were not given back; else their lease has to end
    load(feed, map(str, range(20, 30)))
    try:
        client.call("ingest", settings=own)
    except CallFailed as error:
        if not str(error).startswith("OvertakenRun"):
            raise
        client.call("ingest", settings=own)
    found = client.call("sql", text=f"SELECT CAST(value AS STRING) FROM delta.`{own['target']}`")
    assert sorted(int(text) for (text,) in found) == [*range(30)]
