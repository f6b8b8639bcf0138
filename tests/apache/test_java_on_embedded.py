"""Apache's own Java client on embedded_tubemq: it cannot tell it from Apache's servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.apache.assorted import assert_read_back, send_assorted
from tests.apache.java_client import JavaBalanceConsumer, JavaClientError, JavaProducer
from tests.apache.java_gateway import JavaVM

pytestmark = pytest.mark.apache

TOPICS = [TopicConfig("stream", stores=2, partitions=2), TopicConfig("single", stores=2, partitions=1)]
INDEX_BYTES = 28


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    # Visit tokens checked as on a cluster that does: Java's client has to get on with them.
    with EmbeddedTubeMQ(tmp_path / "tube", TOPICS, brokers=2, check_visit_token=True) as running:
        yield running


@pytest.fixture
def producer(tube: EmbeddedTubeMQ, java_vm: JavaVM) -> Iterator[JavaProducer]:
    with closing(JavaProducer(java_vm, tube.master_address)) as java:
        yield java.publish([topic.name for topic in TOPICS])


@pytest.fixture
def consumer_of(tube: EmbeddedTubeMQ, java_vm: JavaVM) -> Iterator[Callable[[str], JavaBalanceConsumer]]:
    with ExitStack() as stack:

        def make(group: str) -> JavaBalanceConsumer:
            return stack.enter_context(closing(JavaBalanceConsumer(java_vm, tube.master_address, group)))

        yield make


def test_java_reads_back_what_java_wrote(
    producer: JavaProducer, consumer_of: Callable[[str], JavaBalanceConsumer]
) -> None:
    sent = send_assorted(producer, "stream", 60)
    assert {one.where.partition_key.partition(":")[0] for one in sent.values()} == {"1", "2"}

    consumer = consumer_of("reader").start({"stream": []}, source_count=1, node_id=0)
    keys = consumer.await_partitions(8)
    assert keys == sorted(f"{b}:stream:{p}" for b in (1, 2) for p in (0, 1, 10000, 10001))
    for key in keys:
        consumer.connect(key)
    assert consumer.connected() == set(keys)
    assert_read_back(consumer.drain(len(sent)), sent)


def test_java_starts_at_an_offset_and_its_position_is_kept(
    tube: EmbeddedTubeMQ, producer: JavaProducer, consumer_of: Callable[[str], JavaBalanceConsumer]
) -> None:
    sent = [(producer.send("single", b"%d" % number), b"%d" % number) for number in range(24)]
    key = sent[0][0].partition_key
    ours = [(where, body) for where, body in sent if where.partition_key == key]
    assert [where.append_offset for where, _ in ours] == [INDEX_BYTES * number for number in range(len(ours))]

    consumer = consumer_of("seeker").start({"single": []})
    consumer.await_partitions(4)
    consumer.connect(key, ours[2][0].append_offset)
    pack = consumer.get_message()
    assert pack is not None
    assert (pack.partition_key, pack.curr_offset) == (key, ours[2][0].append_offset)
    assert [message.payload for message in pack.messages] == [body for _, body in ours[2:]]
    assert consumer.confirm(pack.confirm_context) == INDEX_BYTES * len(ours)

    # The position outlives consumer, broker and master.
    consumer.disconnect(key)
    tube.stop_broker(1)
    tube.start_broker(1)
    tube.restart_master()
    producer_after = b"after the restart"
    while producer.send("single", producer_after).partition_key != key:
        pass
    again = consumer_of("seeker").start({"single": []})
    again.await_partitions(4)
    again.connect(key)
    assert [message.payload for _, message in again.drain(1)] == [producer_after]


def test_filters_select_messages(producer: JavaProducer, consumer_of: Callable[[str], JavaBalanceConsumer]) -> None:
    for number in range(30):
        producer.send("stream", b"%d" % number, tag=f"t{number % 3}", msg_time="202611211031")
    consumer = consumer_of("filtered").start({"stream": ["t1"]})
    for key in consumer.await_partitions(8):
        consumer.connect(key)
    got = consumer.drain(10)
    assert sorted(int(message.payload) for _, message in got) == list(range(1, 30, 3))


def test_what_is_held_is_refused(producer: JavaProducer, consumer_of: Callable[[str], JavaBalanceConsumer]) -> None:
    producer.send("single", b"one")
    first = consumer_of("held").start({"single": []}, source_count=2, node_id=0)
    key = first.await_partitions(4)[0]
    first.connect(key)
    for source_count, node_id, code in ((3, 1, 429), (2, 0, 430)):
        with pytest.raises(JavaClientError) as caught:
            consumer_of("held").start({"single": []}, source_count=source_count, node_id=node_id)
        assert caught.value.code == code
    second = consumer_of("held").start({"single": []}, source_count=2, node_id=1)
    second.await_partitions(4)
    with pytest.raises(JavaClientError) as caught:
        second.connect(key)
    assert caught.value.code == 410
    first.disconnect(key)
    threading.Event().wait(5.5)  # Java's client itself refuses to try a partition twice within 5 s
    second.connect(key)
    assert second.connected() == {key}


def test_an_idle_java_consumer_keeps_its_lease(
    tube: EmbeddedTubeMQ, producer: JavaProducer, consumer_of: Callable[[str], JavaBalanceConsumer]
) -> None:
    """Heartbeats to broker and master, of which a consumer sees nothing as long as they work."""
    consumer = consumer_of("idle").start({"single": []}, source_count=1, node_id=0)
    keys = consumer.await_partitions(4)
    for key in keys:
        consumer.connect(key)
    threading.Event().wait(15)  # the broker's heartbeat period is 10 s
    assert consumer.get_message() is None
    where = producer.send("single", b"late")
    assert [key for key, _ in consumer.drain(1)] == [where.partition_key]
