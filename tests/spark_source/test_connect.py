"""The source behind a real Spark Connect server: server, client and tests are three processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsets_store import OffsetsTable
from tests.spark_source.connect_server import ConnectServer
from tests.spark_source.feed import Feed
from tests.spark_source.other_driver import HERE, CallFailed, OtherDriver, places, sink, texts
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherDriver]:
    folder = tmp_path_factory.mktemp("connect")
    with ConnectServer(folder) as server, OtherDriver(HERE, folder, {"spark.remote": server.url}) as driver:
        yield driver


def test_the_session_is_a_remote_one(client: OtherDriver) -> None:
    ours, servers, module = client.call("versions")
    assert ours == servers
    assert module == "pyspark.sql.connect.session"


def test_batch_reads_views_and_writes(client: OtherDriver, feed: Feed, plain_feed: Feed) -> None:
    feed.send(60, tags=["web", "app"])
    assert client.call("read", options=feed.options()) == texts(feed.sent)
    client.call("make_view", name="positions", options=feed.options(read="positions"))
    by_store = "SELECT max(lag) AS lag FROM positions GROUP BY storeId"
    assert client.call("sql", text=f"SELECT sum(lag) FROM ({by_store})") == [[60]]
    client.call("make_view", name="clicks", options=feed.options())
    assert client.call("sql", text="SELECT messageType, count(*) FROM clicks GROUP BY 1 ORDER BY 1") == [
        ["app", 30],
        ["web", 30],
    ]
    client.call("write", bodies=["5", "6", "z"], options=sink(plain_feed))
    assert client.call("read", options=plain_feed.options()) == ["5", "6", "z"]
    wrong = "the value of id is not of type int"
    found = client.call("typed", options=plain_feed.options(), schema="id INT")
    assert found == [[5, "5", None], [6, "6", None], [None, "z", wrong]]
    with pytest.raises(CallFailed, match=r"legacy\.javaCharsets is false, and must be true"):
        client.call("typed", options=plain_feed.options(), schema="id INT", encoding="GBK")


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


def test_a_topic_is_copied_by_streams(client: OtherDriver, feed: Feed, plain_feed: Feed, tmp_path: Path) -> None:
    feed.send(40)
    options = feed.options(startingOffsets="earliest")
    for call in ("start_copy", "start_copy_by_batches"):
        client.call(call, name="copy", options=options, checkpoint=str(tmp_path / call), sink=sink(plain_feed))
        try:
            assert client.call("wait", name="copy", seconds=60), "the query did not end"
        finally:
            client.call("stop", name="copy")
        feed.wait_until_free()
    assert client.call("read", options=plain_feed.options()) == sorted(texts(feed.sent) * 2)


def test_errors_reach_the_client(client: OtherDriver, feed: Feed) -> None:
    with pytest.raises(CallFailed, match=r"option subscrib is unknown; did you mean subscribe\?"):
        client.call("read", options=feed.options(subscrib="t"))


def test_the_offsets_table_is_written_through_it(client: OtherDriver, tmp_path: Path) -> None:
    table = str(tmp_path / "offsets")
    assert client.call("record", table=table, rows=[1, 5]) == [{"1:t:0": 1}, {"1:t:0": 5}]
    assert OffsetsTable(table).positions("g", ["t"]) == {PartitionKey(1, "t", 0): 28 * 5}


def test_ingest_is_refused_at_once(client: OtherDriver, feed: Feed, tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match="this session is a client of Spark Connect, and this needs a classic session"):
        client.call("ingest", masters=feed.tube.master_address, topic=feed.topic, folder=str(tmp_path / "job"))
    assert not (tmp_path / "job").exists()


def test_what_a_callback_keeps_stays_in_a_process_of_the_servers(
    client: OtherDriver, feed: Feed, tmp_path: Path
) -> None:
    """So a job cannot be told by its own callback what became of a batch."""
    feed.send(20)
    kept, batches = client.call(
        "kept_by_callback", options=feed.options(startingOffsets="earliest"), checkpoint=str(tmp_path)
    )
    assert (kept, batches) == ([], [0])
    feed.wait_until_free()
