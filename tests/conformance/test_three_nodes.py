"""Two Java clients and one of ours share a group's partitions by Apache's example formula."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.apache.java_client import JavaBalanceConsumer, JavaVM
from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.waiting import group_page, wait_for
from tubeclient import ClientBalanceConsumer, ClientSettings, Producer, SendResult, assign

pytestmark = pytest.mark.apache

NODES = 3
MESSAGES = 3_000

Read = list[tuple[str, int, bytes]]
"""Partition, message id and body of each message."""


class JavaNode:
    """A Java client that does what Apache's example does: it reads the partitions whose hash falls to its node."""

    def __init__(self, java_vm: JavaVM, consumer: JavaBalanceConsumer, topic: str, node_id: int) -> None:
        consumer.start({topic: []}, NODES, node_id)
        for key in consumer.await_partitions(12):
            if (java_vm.jvm.java.util.Objects.hashCode(key) & 0xFFFFFFFF) % NODES == node_id:
                consumer.connect(key)
        self.consumer = consumer
        self.read: Read = []

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            pack = self.consumer.get_message()
            if pack is not None:
                self.read += [(pack.partition_key, message.message_id, message.payload) for message in pack.messages]
                self.consumer.confirm(pack.confirm_context)


class OurNode:
    """A consumer of ours."""

    def __init__(self, consumer: ClientBalanceConsumer) -> None:
        self.consumer = consumer
        self.read: Read = []

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            delivery = self.consumer.get(timeout_ms=200)
            if delivery is not None:
                key = str(delivery.partition)
                self.read += [(key, *part) for part in zip(delivery.message_ids, delivery.bodies, strict=True)]
                self.consumer.confirm(delivery)


@pytest.fixture
def producer(settings: ClientSettings) -> Iterator[Producer]:
    """It sends a message again, and so twice, only if a broker took longer for the answer than any machine needs."""
    with Producer(replace(settings, rpc_timeout_ms=30_000, retry_limit_ms=60_000)) as running:
        yield running


@pytest.mark.merge
def test_each_message_comes_to_one_node_once(
    tube: Cluster,
    producer: Producer,
    consumer_of: MakeConsumer,
    java_vm: JavaVM,
    java_consumer: Callable[..., JavaBalanceConsumer],
) -> None:
    """Sent while all three read: nothing is lost, nothing comes twice, and each partition has one reader."""
    java = [JavaNode(java_vm, java_consumer("three_nodes"), "three_nodes", node_id) for node_id in (0, 1)]
    ours = consumer_of("three_nodes", ["three_nodes"], source_count=NODES, node_id=2)
    for key in assign("hash_modulo", ours.partitions(), NODES)[2]:
        ours.connect(key)
    held = [*(key for node in java for key in node.consumer.connected()), *map(str, ours.registered())]
    assert sorted(held) == sorted(map(str, ours.partitions()))
    assert sorted(group_page(tube.master_web_port, "three_nodes")) == [0, 1, 2]
    nodes: list[JavaNode | OurNode] = [*java, OurNode(ours)]
    producer.publish(["three_nodes"])
    stop = threading.Event()
    sent: list[Future[SendResult]] = []
    with ThreadPoolExecutor() as threads:
        readers = [threads.submit(node.run, stop) for node in nodes]
        try:
            for start in range(0, MESSAGES, 100):
                sent += producer.submit_many("three_nodes", [b"%d" % number for number in range(start, start + 100)])
            placed = [future.result(60) for future in sent]
            wait_for(
                lambda: sum(len(node.read) for node in nodes) >= MESSAGES or any(one.done() for one in readers),
                "all messages to be read by somebody",
            )
        finally:
            stop.set()
        for reader in readers:
            reader.result(30)
    expected = Counter((str(one.partition), one.message_id, b"%d" % number) for number, one in enumerate(placed))
    more = ours.get(timeout_ms=300)
    read = [Counter(node.read) for node in nodes]
    assert [one - expected for one in read] == [Counter()] * NODES, f"then {more}"
    assert sum(read, Counter()) == expected
    assert more is None
    assert len({key for key, _, _ in expected}) == 12
    readers_of = Counter(key for node in nodes for key in {key for key, _, _ in node.read})
    assert set(readers_of.values()) == {1}
    assert all(node.read for node in nodes)
