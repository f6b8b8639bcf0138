"""Apache's own Java client against the embedded servers: what it accepts, any client written for TubeMQ accepts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.apache.fixtures import java_vm
from tests.apache.java_client import JavaBalanceConsumer, JavaClientError, JavaProducer
from tests.apache.java_gateway import JavaVM
from tests.embedded_tubemq.raw_client import http_get

__all__ = ["java_vm"]

pytestmark = pytest.mark.apache

TOPIC = "flights"


@pytest.fixture
def producer(tube: EmbeddedTubeMQ, java_vm: JavaVM) -> Iterator[JavaProducer]:
    made = JavaProducer(java_vm, tube.master_address)
    yield made
    made.close()


@pytest.fixture
def consumers(tube: EmbeddedTubeMQ, java_vm: JavaVM) -> Iterator[list[JavaBalanceConsumer]]:
    """Two consumers of one group, not started."""
    made = [JavaBalanceConsumer(java_vm, tube.master_address, "java_group") for _ in range(2)]
    yield made
    for consumer in made:
        consumer.close()


def test_messages_of_the_java_producer_reach_the_java_consumer(
    tube: EmbeddedTubeMQ, producer: JavaProducer, consumers: list[JavaBalanceConsumer]
) -> None:
    producer.publish([TOPIC])
    sent = {}
    for n in range(40):
        answer = producer.send(TOPIC, b"body %d" % n, {"n": str(n)}, tag=f"tag{n % 2}", msg_time="202601020304")
        assert answer.append_offset % 28 == 0
        sent[answer.partition_key, answer.message_id] = b"body %d" % n
    # Round robin reaches all partitions of both brokers.
    assert len({key for key, _ in sent}) == 8

    consumer = consumers[0].start({TOPIC: []}, 1, 0)
    for key in consumer.await_partitions(8):
        consumer.connect(key, 0)
    got = {}
    for key, message in consumer.drain(40):
        got[key, message.message_id] = message.payload
        assert message.attributes["n"] == message.payload.decode().split()[1]
        assert (message.tag or "").startswith("tag")
        assert message.msg_time == "202601020304"
    assert got == sent
    assert consumer.get_message() is None
    page = http_get(tube.master_web_port, "admin_query_consume_group_detail", groupName="java_group")
    assert [(row["sourceCount"], row["nodeId"]) for row in page["data"]] == [(1, 0)]


def test_filters_positions_and_rollback(
    tube: EmbeddedTubeMQ, producer: JavaProducer, consumers: list[JavaBalanceConsumer]
) -> None:
    producer.publish([TOPIC])
    for n in range(16):
        producer.send(TOPIC, b"%d" % n, tag="wanted" if n % 2 else "other")
    consumer = consumers[0].start({TOPIC: ["wanted"]})
    keys = consumer.await_partitions(8)
    for key in keys:
        consumer.connect(key)
    pack = consumer.get_message()
    while pack is None or not pack.messages:
        if pack is not None:
            consumer.confirm(pack.confirm_context)
        pack = consumer.get_message()
    first = [message.payload for message in pack.messages]
    # Not consumed: the position stays where the pack began, and its messages come again.
    assert consumer.confirm(pack.confirm_context, consumed=False) == pack.curr_offset
    bodies = sorted(int(message.payload) for _, message in consumer.drain(8))
    assert bodies == list(range(1, 16, 2))
    assert set(first) <= {b"%d" % body for body in bodies}
    consumer.disconnect(keys[0])
    assert consumer.connected() == set(keys[1:])


def test_a_second_consumer_is_refused_for_the_node_and_for_the_partition(
    tube: EmbeddedTubeMQ, consumers: list[JavaBalanceConsumer]
) -> None:
    first, second = consumers
    first.start({TOPIC: []}, 2, 0)
    with pytest.raises(JavaClientError) as caught:
        second.start({TOPIC: []}, 2, 0)
    assert caught.value.code == 430
    with pytest.raises(JavaClientError) as caught:
        second.start({TOPIC: []}, 3, 1)
    assert caught.value.code == 429
    second.start({TOPIC: []}, 2, 1)
    key = first.await_partitions(8)[0]
    second.await_partitions(8)
    first.connect(key)
    with pytest.raises(JavaClientError) as caught:
        second.connect(key)
    assert caught.value.code == 410
    assert first.connected() == {key}
    assert second.connected() == set()


def test_a_topic_that_is_not_there(
    tube: EmbeddedTubeMQ, producer: JavaProducer, consumers: list[JavaBalanceConsumer]
) -> None:
    with pytest.raises(JavaClientError):
        producer.publish(["nowhere"])
    with pytest.raises(JavaClientError) as caught:
        consumers[0].start({"nowhere": []}, 1, 0)
    assert caught.value.code == 431
