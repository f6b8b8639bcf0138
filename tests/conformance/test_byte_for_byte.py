"""What one side wrote the other reads byte for byte: our client and Apache's Java client."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.apache.assorted import send_assorted
from tests.apache.java_client import JavaBalanceConsumer, JavaProducer
from tests.conformance.clients import GROUPS, ends, read
from tests.conformance.cluster import Cluster
from tubeclient import ClientSettings, OffsetRange, Producer, fetch_view
from tubeclient.wire.payload import parse_attributes

pytestmark = pytest.mark.apache


def test_what_javas_producer_wrote_our_range_reader_reads_byte_for_byte(
    tube: Cluster, settings: ClientSettings, java_producer: Callable[..., JavaProducer]
) -> None:
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


def test_what_our_producer_wrote_javas_consumer_reads_byte_for_byte(
    producer: Producer, java_consumer: Callable[..., JavaBalanceConsumer]
) -> None:
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
