"""Apache's own Java client cannot tell the embedded cluster from Apache's servers; and what our client or Java's wrote,
the other reads byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.apache.java_client import JavaBalanceConsumer, JavaClientError, JavaProducer, JavaSent
from tests.conformance.clients import GROUPS, ends, read
from tests.conformance.cluster import Cluster
from tests.waiting import group_page
from tubeclient import ClientSettings, OffsetRange, Producer, fetch_view
from tubeclient.wire.payload import parse_attributes

pytestmark = pytest.mark.apache

JavaProducers = Callable[..., JavaProducer]
JavaConsumers = Callable[..., JavaBalanceConsumer]


class Sent(NamedTuple):
    """What was sent with a body, and where it went."""

    where: JavaSent
    attributes: dict[str, str]
    tag: str | None
    time: str | None


def send_assorted(producer: JavaProducer, topic: str, count: int) -> dict[bytes, Sent]:
    """Send `count` messages, all different, with and without attributes, tag and time; return them by body."""
    bodies = [bytes(range(256)), b"\x00", "päyload".encode(), os.urandom(100_000)]
    sent = {}
    for number in range(count):
        body = bodies[number % len(bodies)] + number.to_bytes(4, "big")
        tag, time = (f"tag{number % 3}", "202611211030") if number % 2 else (None, None)
        attributes = {"number": str(number), "text": "grün und gut"} if number % 4 < 3 else {}
        sent[body] = Sent(producer.send(topic, body, attributes or None, tag, time), attributes, tag, time)
    return sent


@pytest.mark.merge
def test_java_reads_back_what_java_wrote(
    tube: Cluster, java_producer: JavaProducers, java_consumer: JavaConsumers
) -> None:
    sent = send_assorted(java_producer("java_alone"), "java_alone", 60)
    keys = sorted(f"{b}:java_alone:{p}" for b in (1, 2) for p in (0, 1, 10000, 10001))
    assert {one.where.partition_key for one in sent.values()} == set(keys)  # Java's producer takes turns
    consumer = java_consumer("java_back").start({"java_alone": []}, source_count=1, node_id=0)
    assert consumer.await_partitions(8) == keys
    for key in keys:
        consumer.connect(key)
    assert consumer.connected() == set(keys)
    found = list(consumer.drain(len(sent)))
    assert {message.payload for _, message in found} == set(sent)
    for key, message in found:
        where, attributes, tag, time = sent[message.payload]
        assert (key, message.message_id) == (where.partition_key, where.message_id)
        own = {name: value for name, value in message.attributes.items() if not name.startswith("$")}
        assert (own, message.tag, message.msg_time) == (attributes, tag, time)
    assert consumer.get_message() is None
    assert list(group_page(tube.master_web_port, "java_back")) == [0]


@pytest.mark.merge
def test_what_is_held_is_refused(java_consumer: JavaConsumers) -> None:
    first = java_consumer("java_held").start({"java_held": []}, source_count=3, node_id=0)
    key = first.await_partitions(2)[0]
    first.connect(key)
    for source_count, node_id, code in ((2, 1, 429), (3, 0, 430)):
        with pytest.raises(JavaClientError) as caught:
            java_consumer("java_held").start({"java_held": []}, source_count=source_count, node_id=node_id)
        assert caught.value.code == code
    second, third = (
        java_consumer("java_held").start({"java_held": []}, source_count=3, node_id=node_id) for node_id in (1, 2)
    )
    second.await_partitions(2)
    with pytest.raises(JavaClientError) as caught:
        second.connect(key)
    assert caught.value.code == 410
    assert (first.connected(), second.connected()) == ({key}, set())
    first.disconnect(key)
    third.await_partitions(2)  # the second's client itself asks nobody for a partition twice within 5 s
    third.connect(key)
    assert third.connected() == {key}


def test_range_reader_reads_what_java_wrote(
    tube: Cluster, settings: ClientSettings, java_producer: JavaProducers
) -> None:
    """The range reader returns the exact bytes and attributes that Java's producer wrote."""
    view = fetch_view(settings, ["written_by_java"], GROUPS)
    before = ends(settings, view)
    sent: dict[str, list[tuple[int, bytes, dict[str, str]]]] = {}
    for body, (where, attributes, tag, time) in send_assorted(
        java_producer("written_by_java"), "written_by_java", 60
    ).items():
        system = {"$msgType$": tag, "$msgTime$": time} if tag and time else {}
        sent.setdefault(where.partition_key, []).append((where.message_id, body, {**system, **attributes}))
    after = ends(settings, view)
    got = {
        str(key): [
            (message_id, body, parse_attributes(text))
            for message_id, body, text in read(tube, view, OffsetRange(key, before[key.store], after[key.store]))
        ]
        for key in view.partitions()
    }
    assert {key: messages for key, messages in got.items() if messages} == sent


def test_java_reads_what_our_producer_wrote(producer: Producer, java_consumer: JavaConsumers) -> None:
    """Java's consumer returns the exact bytes and attributes that our producer wrote."""
    producer.publish(["written_by_us"])
    sent = {}
    for number in range(60):
        body = os.urandom(number * 100) + b"%d" % number
        tag, time = (f"tag{number % 3}", "202611211030") if number % 2 else ("", "")
        attributes = {"number": str(number), "text": "grün"} if number % 3 else {}
        result = producer.send("written_by_us", body, tag=tag, time=time, attributes=attributes)
        sent[body] = (str(result.partition), result.message_id, attributes, tag or None, time or None)
    consumer = java_consumer("java_readers").start({"written_by_us": []}, source_count=1, node_id=0)
    for key in consumer.await_partitions(8):
        consumer.connect(key)
    got = {
        message.payload: (
            key,
            message.message_id,
            {name: value for name, value in message.attributes.items() if not name.startswith("$")},
            message.tag,
            message.msg_time,
        )
        for key, message in consumer.drain(len(sent))
    }
    assert got == sent
