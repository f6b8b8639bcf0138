"""Sending: where messages go, what they carry, what happens when the broker or the network does not play along."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.refusal import ConnectionFault
from tests.tubeclient.stored import bodies, stored
from tests.waiting import wait_for
from tubeclient import (
    ClientSettings,
    ConfigurationError,
    DeadlineExceeded,
    OutgoingMessage,
    Producer,
    SendResult,
    TopicNotDeployed,
)
from tubeclient.net.streams import PlainStream
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import decode_payload, java_string_hash


def test_a_message_arrives_with_its_attributes_and_tag(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        result = producer.send("clicks", b"hello", tag="web", time="202601311259", attributes={"user": "7"})
    (record,) = stored(cluster)[result.partition.store]
    assert (record.partition_id, record.index_offset, record.message_id) == (
        result.partition.partition_id,
        result.offset,
        result.message_id,
    )
    assert decode_payload(record.payload, record.flag) == (b"hello", "$msgType$=web,$msgTime$=202601311259,user=7")
    assert record.tag_hash == java_string_hash("web")


def test_round_robin(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """Messages go to all partitions in turn, each of them once."""
    with Producer(settings, max_in_flight=50) as producer:
        producer.publish(["clicks"])
        with ThreadPoolExecutor(4) as threads:
            futures = list(threads.map(lambda n: producer.submit("clicks", b"%d" % n), range(800)))
        results = [future.result(30) for future in futures]
    assert Counter(result.partition for result in results) == {result.partition: 100 for result in results}
    assert len({result.partition for result in results}) == 8
    assert bodies(cluster) == {b"%d" % n: 1 for n in range(800)}


def test_futures_are_those_of_the_standard_library(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """Whoever waits in its ways is woken, and each callback is called once, before the answer and after it."""
    called: list[Future[SendResult]] = []
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).answer_delay_ms = 200
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        futures = producer.submit_many("clicks", [b"x"] * 20)
        refused = producer.submit("clicks", b"y", timeout_ms=100)
        for future in [*futures, refused]:
            assert not future.cancel()
            future.add_done_callback(called.append)
        assert {*as_completed(futures, 30)} == {*futures}
        assert wait([*futures, refused], 30).not_done == set()
        assert isinstance(refused.exception(0), DeadlineExceeded)
        assert {future.result(0).partition.topic for future in futures} == {"clicks"}
        futures[0].add_done_callback(called.append)
        producer.flush()
    assert Counter(called) == Counter([*futures, refused, futures[0]])


def test_no_two_futures_have_the_same_lock(settings: ClientSettings) -> None:
    """The standard library's `wait` holds those of all its futures, taken in the order of the futures. Two threads that
    wait for some of the same messages would each hold what the other needs."""
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        futures = producer.submit_many("clicks", [b"x"] * 20)
        assert len({id(future._condition) for future in futures}) == 20


@pytest.mark.parametrize("code", [403, 503])
def test_a_refused_message_goes_elsewhere(cluster: EmbeddedTubeMQ, settings: ClientSettings, code: int) -> None:
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).force(Method.SEND_MESSAGE, code, times=3)
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        futures = [producer.submit("clicks", b"%d" % n) for n in range(20)]
        assert all(future.result(30) for future in futures)
    assert bodies(cluster) == {b"%d" % n: 1 for n in range(20)}


@pytest.mark.parametrize("fault", list(ConnectionFault))
def test_a_broken_connection_loses_no_message(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, fault: ConnectionFault
) -> None:
    cluster.broker_faults(1).break_connection(Method.SEND_MESSAGE, fault, nth=5)
    with Producer(replace(settings, rpc_timeout_ms=500)) as producer:
        producer.publish(["clicks"])
        futures = [producer.submit("clicks", b"%d" % n) for n in range(40)]
        assert all(future.result(30) for future in futures)
    assert set(bodies(cluster)) == {b"%d" % n for n in range(40)}


@pytest.mark.parametrize("faults", [1, 1_000])  # sent at the second attempt, or given up
def test_future_frees_message(settings: ClientSettings, monkeypatch: pytest.MonkeyPatch, faults: int) -> None:
    """Nor does the error of an attempt, by the frames of its traceback."""
    send, body, written = PlainStream.send, bytes(1_000), list[bytes]()

    def failing(stream: PlainStream, data: bytes) -> None:
        if body in data and len(written) < faults:
            written.append(data)
            raise ConnectionResetError
        send(stream, data)

    with Producer(settings) as producer:
        producer.publish(["clicks"])
        before = sys.getrefcount(body)
        monkeypatch.setattr(PlainStream, "send", failing)
        future = producer.submit("clicks", body, timeout_ms=500)
        error = future.exception(30)
    assert isinstance(error, DeadlineExceeded) if faults > 1 else error is None
    gc.collect()
    nobodys = [bytes(1_000)]
    assert {sys.getrefcount(one) for one in written} == {sys.getrefcount(one) for one in nobodys}
    assert sys.getrefcount(body) == before


def test_messages_a_cluster_would_refuse_are_not_sent(settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        with pytest.raises(ConfigurationError, match=r"empty message.*clicks"):
            producer.submit("clicks", b"")
        with pytest.raises(ConfigurationError, match=r"1048577 bytes.*topic clicks's limit of 1048576 bytes"):
            producer.submit("clicks", bytes((1 << 20) + 1))
        with pytest.raises(ConfigurationError, match="topic single was not published"):
            producer.submit("single", b"x")
        assert producer.send("clicks", bytes(1 << 20)).offset == 0


@pytest.mark.parametrize("time", ["202602301259", "\uff12" * 12, 202601311259, None])
def test_a_time_that_no_reader_could_read_is_not_sent(time: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"like 202601311259 .*a datetime; not {time!r}"):
        OutgoingMessage.of("clicks", b"x", time=time)


def test_the_time_of_a_message_may_be_a_datetime() -> None:
    moment = datetime(2026, 1, 31, 12, 59, 58, tzinfo=timezone(timedelta(hours=8)))
    assert OutgoingMessage.of("clicks", b"x", time=moment).time == "202601311259"


class Kind(str, Enum):  # noqa: UP042  # what a StrEnum writes is its value
    CLICK = "click"


def test_text_of_enum() -> None:
    """They are equal, but an f-string writes "Kind.CLICK"."""
    made = [OutgoingMessage.of("clicks", b"x", tag=kind, attributes={"kind": kind}) for kind in (Kind.CLICK, "click")]
    assert [one.payload[4:] for one in made] == [b"$msgType$=click,kind=clickx"] * 2
    assert [one.tag for one in made] == ["click"] * 2


MESSAGES: list[list[Any]] = [[("single", b"x", 0, "", "", "")], [None], ["single"]]


@pytest.mark.parametrize("messages", MESSAGES, ids=repr)
def test_invalid_messages(cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[Any]) -> None:
    """The producer refuses anything but an OutgoingMessage before it sends any message."""
    good = OutgoingMessage.of("single", b"good")
    with Producer(settings) as producer:
        producer.publish(["single"])
        with pytest.raises(ConfigurationError, match=r"a message must be an OutgoingMessage, such as .*\.of\(.*, not "):
            producer.submit_each([good, *messages])
        assert producer.send("single", b"after").offset is not None
    assert bodies(cluster, "single") == {b"after": 1}


def test_recreated_topic(cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message to a deleted topic is sent when the topic is created again."""
    monkeypatch.setattr("tubeclient.producing.producer.HEARTBEAT_INTERVAL_MS", 50)
    with Producer(settings) as producer:
        producer.publish(["single"])
        cluster.delete_topic("single")
        wait_for(lambda: not producer._routes.partitions("single"), "the heartbeat to tell that the topic is gone")
        future = producer.submit("single", b"x")
        cluster.create_topic(TopicConfig("single"))
        assert future.result(30).partition.topic == "single"


def test_unknown_topic(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """An unknown topic raises an error and does not affect the other topics."""
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        with pytest.raises(TopicNotDeployed, match="publishing to nosuch: the cluster has no topic nosuch") as caught:
            producer.publish(["nosuch", "clicks", "single"], timeout_ms=300)
        assert (caught.value.topic, caught.value.code) == ("nosuch", 431)
        assert producer.topics == ["clicks", "single"]
        assert producer.send("clicks", b"x")
