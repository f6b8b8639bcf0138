"""Brokers let index and data expire each by its own segments, so either may begin first: the same on both servers.

Apache's broker drops full segments only. Here its segments are small, and two topics fill them at another pace: many
small messages fill those of the index, few large ones those of the data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.conformance.cluster import ApacheCluster, Cluster, EmbeddedCluster, to_config
from tests.conformance.consuming import partition_of
from tests.embedded_tubemq.raw_client import http_get
from tests.waiting import wait_for
from tubeclient import ClientBalanceConsumer, DataLoss, Producer
from tubeclient.wire.methods import Method

pytestmark = [pytest.mark.apache, pytest.mark.timeout(600)]

ENTRY: Final = 28
DATA_SEGMENT, INDEX_ENTRIES = 1 << 20, 2_500
EXPIRY_SECONDS: Final = 240.0

# Full segments expire 20 s after their last write; the broker looks once a minute, its shortest interval.
_SHORT: Final = {"deletePolicy": "delete,20s", "memCacheFlushIntvl": 4_000}
TOPICS: Final = (
    TopicSpec("index_first", num_partitions=1, num_stores=1, properties=_SHORT),
    TopicSpec("data_first", num_partitions=1, num_stores=1, properties=_SHORT),
)
BODIES: Final = {
    "index_first": [b"%06d" % number for number in range(3_000)],
    "data_first": [b"%06d" % number + bytes(1_000) for number in range(1_500)],
}


@dataclass
class Aged:
    """A broker with both topics, after expiry."""

    tube: Cluster
    web_port: int

    def page(self, topic: str) -> dict[str, int]:
        """Where index and data of the topic begin and end, by the broker's page."""
        [shown] = http_get(self.web_port, "admin_query_pubinfo", path="broker.htm", topicName=topic)["dataSet"]
        [row] = shown["offsetInfo"]
        return {name: row[name] for name in ("offsetMin", "offsetMax", "dataMin", "dataMax")}

    def send(self, topic: str, bodies: Sequence[bytes]) -> None:
        with Producer(self.tube.settings) as producer:
            producer.publish([topic])
            for future in producer.submit_many(topic, bodies):
                future.result(60)

    def age(self, expire: Callable[[], None]) -> None:
        """Fill the segments, let them expire, and write the messages that come after it."""
        small = BODIES["index_first"]
        self.send("index_first", small[:INDEX_ENTRIES])
        self.send("data_first", BODIES["data_first"])
        expire()
        wait_for(self.has_expired, "the full segments to expire", seconds=EXPIRY_SECONDS)
        self.send("index_first", small[INDEX_ENTRIES:])

    def has_expired(self) -> bool:
        time.sleep(0.5)
        return self.page("index_first")["offsetMin"] > 0 and self.page("data_first")["dataMin"] > 0


@pytest.fixture(scope="module", params=["embedded", "apache"])
def aged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aged]:
    folder = tmp_path_factory.mktemp("apart")
    if request.param == "embedded":
        with EmbeddedTubeMQ(folder / "tube", to_config(TOPICS)) as servers:
            one = Aged(EmbeddedCluster(servers), servers.broker_web_ports[1])

            def expire() -> None:
                servers.expire_index("index_first", INDEX_ENTRIES * ENTRY)
                servers.expire_data("data_first", 1_000 * ENTRY)

            one.age(expire)
            yield one
        return
    small = {
        "maxSegmentSize": DATA_SEGMENT,
        "maxIndexSegmentSize": INDEX_ENTRIES * ENTRY,
        "logClearupDurationMs": 60_000,
    }
    with ApacheTubeMQ(folder / "tubemq", brokers=1, heap_mb=256, broker_settings=small) as apache:
        apache.create_topics(TOPICS)
        one = Aged(ApacheCluster(apache), int(apache.broker_web_addresses[0].rpartition(":")[2]))
        one.age(lambda: None)
        yield one


def first_fetch(aged: Aged, topic: str) -> tuple[Any, Any]:
    """The answers to a reader that wants to begin at 0, and to its first fetch."""
    who = {"clientId": "raw", "groupName": "raw", "topicName": topic, "partitionId": 0}
    visit = {"visitAuthorizedToken": aged.tube.visit_token()}
    with aged.tube.raw(1) as broker:
        at = broker.call(Method.PARTITION_REGISTER, opType=31, readStatus=0, currOffset=0, authInfo=visit, **who)
        fetched = broker.call(Method.GET_MESSAGES, lastPackConsumed=False, manualCommitOffset=False, **who)
        broker.call(Method.PARTITION_REGISTER, opType=32, readStatus=1, authInfo=visit, **who)
    assert (at.errCode, fetched.errCode) == (200, 200)
    return at, fetched


def read_from_0(aged: Aged, topic: str) -> tuple[DataLoss, list[bytes]]:
    """What our consumer says is lost, and what it reads after it, bodies without their zeros."""
    key = partition_of(topic)
    count = len(BODIES[topic])
    loss: DataLoss | None = None
    bodies: list[bytes] = []
    with ClientBalanceConsumer(aged.tube.settings, f"{topic}_ours", [topic], start_from="earliest") as consumer:
        try:
            consumer.connect(key, 0)
        except DataLoss as error:
            loss = error
            consumer.connect(key, cast(int, error.found))
        while not bodies or bodies[-1] != BODIES[topic][-1][:6]:
            try:
                delivery = consumer.get(timeout_ms=30_000)
            except DataLoss as error:
                assert loss is None
                loss = error
                continue
            assert delivery is not None, f"{len(bodies)} of {count}"
            bodies += [body[:6] for body in delivery.bodies]
            consumer.confirm(delivery)
    assert loss is not None
    return loss, bodies


def test_an_index_that_begins_after_its_data(aged: Aged) -> None:
    """What is not in the index cannot be read, though it is there: a reader begins where the index does."""
    page = aged.page("index_first")
    first = INDEX_ENTRIES * ENTRY
    assert (page["offsetMin"], page["offsetMax"]) == (first, len(BODIES["index_first"]) * ENTRY)
    assert page["dataMin"] == 0
    at, fetched = first_fetch(aged, "index_first")
    assert (at.currOffset, fetched.currOffset) == (first, first)
    assert fetched.messages[0].payLoadData == BODIES["index_first"][INDEX_ENTRIES]
    loss, bodies = read_from_0(aged, "index_first")
    assert (loss.wanted, loss.found) == (0, first)
    assert bodies == BODIES["index_first"][INDEX_ENTRIES:]


def test_data_that_begins_after_its_index(aged: Aged) -> None:
    """Entries without data are answered by a pack without messages, from where the reader stood."""
    page = aged.page("data_first")
    assert (page["offsetMin"], page["offsetMax"]) == (0, len(BODIES["data_first"]) * ENTRY)
    assert 0 < page["dataMin"] < page["dataMax"]
    at, fetched = first_fetch(aged, "data_first")
    assert (at.currOffset, fetched.currOffset) == (0, 0)
    first = len(BODIES["data_first"]) - fetched_later(aged)
    loss, bodies = read_from_0(aged, "data_first")
    assert (loss.wanted, loss.found) == (0, first * ENTRY)
    assert bodies == [body[:6] for body in BODIES["data_first"][first:]]


def fetched_later(aged: Aged) -> int:
    """How many messages of data_first a plain reader gets when it goes on to the end."""
    who = {"clientId": "later", "groupName": "later", "topicName": "data_first", "partitionId": 0}
    visit = {"visitAuthorizedToken": aged.tube.visit_token()}
    count, moved = 0, 0
    with aged.tube.raw(1) as broker:
        broker.call(Method.PARTITION_REGISTER, opType=31, readStatus=0, currOffset=0, authInfo=visit, **who)
        while moved < len(BODIES["data_first"]) * ENTRY:
            answer = broker.call(Method.GET_MESSAGES, lastPackConsumed=True, manualCommitOffset=False, **who)
            assert answer.errCode == 200
            count += len(answer.messages)
            moved = broker.call(Method.COMMIT_OFFSET, lastPackConsumed=True, **who).currOffset
        broker.call(Method.PARTITION_REGISTER, opType=32, readStatus=0, authInfo=visit, **who)
    assert 0 < count < len(BODIES["data_first"])
    return count
