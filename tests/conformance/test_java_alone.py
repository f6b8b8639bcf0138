"""Apache's own Java client cannot tell the embedded cluster from Apache's servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.broker.offsets import Cursor
from tests.apache.assorted import assert_read_back, send_assorted
from tests.apache.java_client import JavaBalanceConsumer, JavaClientError, JavaProducer
from tests.apache.java_gateway import JavaVM
from tests.conformance.cluster import Cluster
from tests.group_page import group_page
from tests.waiting import wait_for
from tubeclient.keys import INDEX_ENTRY_BYTES

pytestmark = pytest.mark.apache

JavaProducers = Callable[..., JavaProducer]
JavaConsumers = Callable[..., JavaBalanceConsumer]


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
    assert_read_back(consumer.drain(len(sent)), sent)
    assert consumer.get_message() is None
    assert list(group_page(tube.master_web_port, "java_back")) == [0]


def test_java_starts_at_an_offset(java_producer: JavaProducers, java_consumer: JavaConsumers) -> None:
    producer = java_producer("java_offsets")
    sent = [(producer.send("java_offsets", b"%d" % number), b"%d" % number) for number in range(24)]
    key = sent[0][0].partition_key
    ours = [(where, body) for where, body in sent if where.partition_key == key]
    assert [where.append_offset for where, _ in ours] == [INDEX_ENTRY_BYTES * number for number in range(len(ours))]
    consumer = java_consumer("java_offset").start({"java_offsets": []})
    consumer.await_partitions(2)
    consumer.connect(key, ours[2][0].append_offset)
    pack = consumer.next_pack()
    assert (pack.partition_key, pack.curr_offset) == (key, ours[2][0].append_offset)
    assert [message.payload for message in pack.messages] == [body for _, body in ours[2:]]
    assert consumer.confirm(pack.confirm_context) == INDEX_ENTRY_BYTES * len(ours)


def test_what_java_did_not_consume_comes_again(java_producer: JavaProducers, java_consumer: JavaConsumers) -> None:
    where = java_producer("java_rollback").send("java_rollback", b"twice")
    consumer = java_consumer("java_rollback").start({"java_rollback": []})
    consumer.await_partitions(2)
    consumer.connect(where.partition_key)
    pack = consumer.next_pack()
    assert consumer.confirm(pack.confirm_context, consumed=False) == pack.curr_offset
    again = consumer.next_pack()
    assert [message.payload for message in again.messages] == [message.payload for message in pack.messages]
    assert consumer.confirm(again.confirm_context) == where.append_offset + INDEX_ENTRY_BYTES


def test_filters_select_messages(java_producer: JavaProducers, java_consumer: JavaConsumers) -> None:
    producer = java_producer("java_filters")
    for number in range(30):
        producer.send("java_filters", b"%d" % number, tag=f"t{number % 3}", msg_time="202611211031")
    consumer = java_consumer("java_filters").start({"java_filters": ["t1"]})
    for key in consumer.await_partitions(4):
        consumer.connect(key)
    got = consumer.drain(10, timeout=90.0)
    assert sorted(int(message.payload) for _, message in got) == list(range(1, 30, 3))
    assert {message.tag for _, message in got} == {"t1"}


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


def test_an_idle_java_consumer_keeps_its_lease(tmp_path: Path, java_vm: JavaVM) -> None:
    """On the embedded cluster alone: its lease can be made shorter than a Java client that does not beat."""
    with (
        # Visit tokens are checked, as on a cluster that does: Java's client has to get on with them.
        EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("idle")], lease_ms=3_000, check_visit_token=True) as servers,
        closing(JavaBalanceConsumer(java_vm, servers.master_address, "idle", heartbeat_ms=500)) as consumer,
    ):
        consumer.start({"idle": []}, source_count=1, node_id=0)
        [key] = consumer.await_partitions(1)
        consumer.connect(key)

        def deadline_ms() -> int:
            owner = servers.inspect(lambda broker: broker.ownership.owner(Cursor("idle", "idle", 0)))
            assert owner is not None
            return owner.deadline_ms

        granted = deadline_ms()
        wait_for(lambda: deadline_ms() > granted + 6_000, "leases that go on far beyond the first one")
        assert list(group_page(servers.master_web_port, "idle")) == [0]
        assert consumer.connected() == {key}
