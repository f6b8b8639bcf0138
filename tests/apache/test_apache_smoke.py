"""Apache TubeMQ's own servers and Java client agree with each other: other tests may trust them as a fixture."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apache.assorted import assert_read_back, send_assorted
from tests.apache.java_client import JavaBalanceConsumer, JavaProducer
from tests.apache.server import ApacheTubeMQ, TopicSpec

pytestmark = pytest.mark.apache

_INDEX_BYTES = 28


def test_java_consumer_reads_what_java_producer_wrote(
    java_producer: Callable[..., JavaProducer], java_consumer: Callable[..., JavaBalanceConsumer]
) -> None:
    sent = send_assorted(java_producer("apache_stream"), "apache_stream", 40)
    consumer = java_consumer("smoke_read_back").start({"apache_stream": []}, source_count=1, node_id=0)
    keys = consumer.await_partitions(8)
    assert keys == sorted(f"{b}:apache_stream:{p}" for b in (1, 2) for p in (0, 1, 10000, 10001))
    for key in keys:
        consumer.connect(key)
    assert consumer.connected() == set(keys)
    assert_read_back(consumer.drain(len(sent)), sent)


def test_java_consumer_starts_at_an_offset(
    apache: ApacheTubeMQ,
    java_producer: Callable[..., JavaProducer],
    java_consumer: Callable[..., JavaBalanceConsumer],
) -> None:
    producer = java_producer("apache_single")
    sent = [(producer.send("apache_single", b"%d" % number), b"%d" % number) for number in range(24)]
    key = sent[0][0].partition_key
    ours = [(where, body) for where, body in sent if where.partition_key == key]
    third = ours[2][0].append_offset

    consumer = java_consumer("smoke_offset").start({"apache_single": []})
    consumer.await_partitions(8)
    consumer.connect(key, third)
    pack = None
    while pack is None:
        pack = consumer.get_message()
    assert (pack.partition_key, pack.curr_offset) == (key, third)
    assert [message.payload for message in pack.messages] == [body for _, body in ours[2:]]
    end = consumer.confirm(pack.confirm_context)
    assert end == ours[-1][0].append_offset + _INDEX_BYTES

    broker, _, partition = key.split(":")
    assert apache.broker_admin(int(broker) - 1).offsets("apache_single")[int(partition)] == (0, end)


def test_filter_tags_select_messages(
    apache: ApacheTubeMQ,
    java_producer: Callable[..., JavaProducer],
    java_consumer: Callable[..., JavaBalanceConsumer],
) -> None:
    # A filtered reader is given only what is on disk, which is 20 s behind unless the topic asks for 4 s.
    apache.create_topics([TopicSpec("smoke_filter", num_partitions=3, properties={"memCacheFlushIntvl": 4000})])
    producer = java_producer("smoke_filter")
    for number in range(30):
        producer.send("smoke_filter", b"%d" % number, tag=f"t{number % 3}", msg_time="202611211031")
    consumer = java_consumer("smoke_filter").start({"smoke_filter": ["t1"]})
    for key in consumer.await_partitions(6):
        consumer.connect(key)
    got = consumer.drain(10, timeout=90.0)
    assert sorted(int(message.payload) for _, message in got) == list(range(1, 30, 3))
    assert {message.tag for _, message in got} == {"t1"}


def test_messages_and_positions_outlive_clean_restarts(
    apache: ApacheTubeMQ,
    java_producer: Callable[..., JavaProducer],
    java_consumer: Callable[..., JavaBalanceConsumer],
) -> None:
    # On one broker, or which of the two a message is on would be the producer's choice.
    topic = TopicSpec("smoke_restart", brokers=(1,))
    apache.create_topics([topic])
    producer = java_producer(topic.name)
    key = f"{apache.broker_ids[1]}:{topic.name}:0"
    sent = [producer.send(topic.name, b"%d" % number) for number in range(6)]
    assert [(where.partition_key, where.append_offset) for where in sent] == [
        (key, _INDEX_BYTES * number) for number in range(6)
    ]

    apache.stop_broker(1)
    assert not apache.broker_running(1)
    apache.start_broker(1)
    apache.restart_master()

    assert apache.broker_admin(1).offsets(topic.name) == {0: (0, 6 * _INDEX_BYTES)}
    consumer = java_consumer("smoke_restart").start({topic.name: []})
    assert consumer.await_partitions(1) == [key]
    consumer.connect(key)
    assert [message.payload for _, message in consumer.drain(6)] == [b"%d" % number for number in range(6)]
