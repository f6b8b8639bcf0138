"""A partition is one client's, Java's or ours; the other is refused until it is given back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.apache.java_client import JavaBalanceConsumer
from tests.conformance.clients import drain, partition_of, take
from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tubeclient import PartitionOccupied

pytestmark = pytest.mark.apache

KEY = partition_of("held")

JavaConsumers = Callable[..., JavaBalanceConsumer]


def started(java: JavaBalanceConsumer) -> JavaBalanceConsumer:
    """In a group that nobody counts, with the partitions known."""
    java.start({"held": []}).await_partitions(2)
    return java


def test_ours_is_refused_and_waits_for_java_to_disconnect(
    tube: Cluster, java_consumer: JavaConsumers, consumer_of: MakeConsumer
) -> None:
    offsets = tube.put(KEY, [b"one", b"two"])
    java = started(java_consumer("held_by_java"))
    java.connect(str(KEY), offsets[0])
    ours = consumer_of("held_by_java", ["held"])
    with pytest.raises(PartitionOccupied, match="410") as caught:
        ours.connect(KEY)
    assert (caught.value.code, caught.value.partition) == (410, str(KEY))
    assert ours.registered() == []
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(ours.connect, KEY, timeout_ms=30_000)
        pack = java.next_pack()  # Java's is not disturbed
        assert not waiting.done()
        assert java.confirm(pack.confirm_context) == offsets[1] + 28
        java.disconnect(str(KEY))
        assert waiting.result(30) == offsets[1] + 28
    tube.put(KEY, [b"three"])
    assert take(ours).bodies == [b"three"]


def test_without_a_source_count_any_number_of_clients_share_a_group(
    tube: Cluster, java_consumer: JavaConsumers, consumer_of: MakeConsumer
) -> None:
    key, other = partition_of("shared"), partition_of("shared", 2)
    tube.put(key, [b"ours"])
    tube.put(other, [b"java's"])
    ours, idle = (consumer_of("uncounted", ["shared"], source_count=-1, node_id=node_id) for node_id in (-1, 5))
    java = java_consumer("uncounted").start({"shared": []})
    java.await_partitions(2)
    ours.connect(key)
    java.connect(str(other))
    assert drain(ours, 1) == [(key, b"ours")]
    assert [(name, message.payload) for name, message in java.drain(1)] == [(str(other), b"java's")]
    assert idle.registered() == []
    assert idle.get(timeout_ms=100) is None
