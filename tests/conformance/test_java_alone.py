"""Apache's own Java client cannot tell the embedded cluster from Apache's servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apache.assorted import assert_read_back, send_assorted
from tests.apache.java_client import JavaBalanceConsumer, JavaClientError, JavaProducer
from tests.conformance.cluster import Cluster
from tests.group_page import group_page

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
