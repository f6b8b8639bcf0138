"""One broker of two is down: queries start, go on, start again and take topics in, and each message comes once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.group_page import group_page
from tests.spark_source.queries import Batches, batch, run_available, running, stream
from tests.waiting import wait_for
from tubeclient.wire.payload import encode_payload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


class Pair:
    """Two brokers, with topics of two partitions on each."""

    def __init__(self, tube: EmbeddedTubeMQ) -> None:
        self.tube = tube
        self._numbers = itertools.count()

    def topic(self, name: str) -> None:
        self.tube.create_topic(TopicConfig(name, stores=1, partitions=2))

    def send(self, topic: str, broker_id: int, count: int = 5) -> list[bytes]:
        bodies = [f"{topic}-{broker_id}-{next(self._numbers):04d}".encode() for _ in range(count)]
        messages = [NewMessage(number % 2, *encode_payload(body, "")) for number, body in enumerate(bodies)]
        self.tube.load(topic, messages, broker_id=broker_id)
        return bodies

    def options(self, **more: object) -> dict[str, str]:
        return {
            "masterServers": self.tube.master_address,
            "masterWebPort": str(self.tube.master_web_port),
            "consumerGroup": "pair",
            "sourceCount": "2",
            "groupJoinTimeout": "0s",
            "retryLimit": "2s",
            "partitionRefreshInterval": "1s",
            **{name: str(value) for name, value in more.items()},
        }

    def wait_until_free(self) -> None:
        wait_for(lambda: not group_page(self.tube.master_web_port, "pair"), "the group to be free")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with EmbeddedTubeMQ(tmp_path / "tube", brokers=2) as tube:
        yield Pair(tube)


def wait_until(query: StreamingQuery, condition: Callable[[], bool], what: str) -> None:
    wait_for(lambda: query.exception() or condition(), what, seconds=120)
    assert query.exception() is None


def has_begun(query: StreamingQuery) -> bool:
    return bool(query.status["message"] == "Waiting for data to arrive")


def end_of(query: StreamingQuery) -> str:
    """Where the last batch ended, as Spark has it."""
    progress = query.lastProgress
    return "" if progress is None else str(progress["sources"][0]["endOffset"])


@pytest.mark.parametrize(("web", "clean"), [(True, False), (False, True)])
def test_a_query_starts_and_starts_again_without_one_broker(
    delta_spark: SparkSession, pair: Pair, tmp_path: Path, web: bool, clean: bool
) -> None:
    pair.topic("t")
    for broker_id in (1, 2):
        pair.send("t", broker_id)  # before the query begins at latest
    pair.tube.stop_broker(2, clean=clean)
    frame = stream(delta_spark, pair.options(subscribe="t", **({} if web else {"masterWebPort": 1})))
    sink, checkpoint = Batches(), tmp_path / "checkpoint"
    with running(frame, checkpoint, sink) as query:
        wait_until(query, lambda: has_begun(query), "a query that has begun")
        expected = pair.send("t", 1)
        wait_until(query, lambda: len(sink.all) == 5 and has_begun(query), "the first broker's messages")
        assert '"latest"' in end_of(query)
    pair.wait_until_free()
    with running(frame, checkpoint, sink) as query:
        expected += pair.send("t", 1)
        wait_until(query, lambda: len(sink.all) == 10, "the first broker's messages after a restart")
        pair.tube.start_broker(2)
        wait_until(query, lambda: '"2:t:0": {"0-1": 140}' in end_of(query), "the other broker's partitions to enter")
        expected += pair.send("t", 2)
        wait_until(query, lambda: len(sink.all) >= 15, "all messages")
    pair.wait_until_free()
    expected += pair.send("t", 2)
    run_available(frame, checkpoint, sink)
    assert sink.all == sorted(expected)


def test_a_topic_joins_a_pattern_while_a_broker_is_down(delta_spark: SparkSession, pair: Pair, tmp_path: Path) -> None:
    pair.topic("family_a")
    expected = pair.send("family_a", 1) + pair.send("family_a", 2)
    sink = Batches()
    options = pair.options(subscribePattern="family_.*", startingOffsets="earliest")
    with running(stream(delta_spark, options), tmp_path / "checkpoint", sink) as query:
        wait_until(query, lambda: len(sink.all) == len(expected), "what was there")
        pair.tube.stop_broker(2, clean=False)
        pair.topic("family_b")
        expected += pair.send("family_b", 1) + pair.send("family_a", 1)
        wait_until(query, lambda: len(sink.all) == len(expected), "both topics on the broker that is left")
        pair.tube.start_broker(2)
        expected += pair.send("family_b", 2) + pair.send("family_a", 2)
        wait_until(query, lambda: len(sink.all) >= len(expected), "both topics on both")
    assert sink.all == sorted(expected)


def test_what_ends_is_whole_or_an_error(delta_spark: SparkSession, pair: Pair, tmp_path: Path) -> None:
    pair.topic("t")
    near, far = pair.send("t", 1), pair.send("t", 2)
    pair.tube.stop_broker(2)
    options = pair.options(subscribe="t", startingOffsets="earliest")
    with pytest.raises(Exception, match=r"a batch read needs all brokers .*127\.0\.0\.1:"):
        batch(delta_spark, options).collect()
    sink, checkpoint = Batches(), tmp_path / "checkpoint"
    left = r"has read all except 2 partitions \(2:t:0, 2:t:1\), whose brokers do not answer"
    with pytest.raises(Exception, match=left):
        run_available(stream(delta_spark, options), checkpoint, sink)
    assert sink.all == near
    pair.wait_until_free()
    pair.tube.start_broker(2)
    run_available(stream(delta_spark, options), checkpoint, sink)
    assert sink.all == sorted(near + far)
