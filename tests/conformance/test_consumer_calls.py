"""Each call of ClientBalanceConsumer does what it says."""

from __future__ import annotations

import itertools
import threading
import time

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import drain, partition_of, take
from tests.waiting import wait_for
from tubeclient import (
    Admin,
    ClientSettings,
)

KEY, OTHER = partition_of("calls"), partition_of("calls", 2)

# A pack is full with the message that crosses 320 KiB (the first one after a connect) or 512 KiB.
TWO_PACKS = [bytes(300_000)] * 3


def test_start_registers_topics_filters_count_and_node(
    tube: Cluster, settings: ClientSettings, consumer_of: MakeConsumer
) -> None:
    wanted = {"calls": [], "calls_filtered": ["wanted", "needed"]}
    consumer = consumer_of("calls_start", wanted, source_count=3, node_id=1)
    group = Admin(settings).group("calls_start")
    assert (group.kind, set(group.topics)) == ("client-rebalance", set(wanted))
    assert group.filters == {"calls_filtered": frozenset(["needed", "wanted"])}
    assert [(member.client_id, member.source_count, member.node_id) for member in group.members] == [
        (consumer.consumer_id, 3, 1)
    ]


def test_partitions_connect_and_disconnect(tube: Cluster, settings: ClientSettings, consumer_of: MakeConsumer) -> None:
    consumer = consumer_of("calls_connect", ["calls"])
    assert consumer.partitions() == consumer.partitions(refresh=True) == {KEY: True, OTHER: True}
    assert consumer.registered() == []
    consumer.connect(OTHER)
    consumer.connect(KEY)
    assert consumer.registered() == [KEY, OTHER]

    def shown() -> int:
        return sum(len(member.partitions) for member in Admin(settings).group("calls_connect").members)

    wait_for(lambda: shown() == 2, "the master to show what is connected")
    assert consumer.disconnect(OTHER)
    assert not consumer.disconnect(OTHER)
    assert consumer.registered() == [KEY]
    wait_for(lambda: shown() == 1, "the master to show what is left")


def test_a_bootstrap_offset_moves_the_group_and_without_one_it_goes_on(
    tube: Cluster, consumer_of: MakeConsumer
) -> None:
    offsets = tube.put(KEY, [b"bootstrap %d" % number for number in range(6)])
    consumer = consumer_of("calls_bootstrap", ["calls"])
    assert consumer.connect(KEY, offsets[2]) == offsets[2]
    assert take(consumer).start == offsets[2]
    consumer.disconnect(KEY, wait_ms=0)  # the pack that is out is rolled back
    assert consumer.connect(KEY) == offsets[2]
    pack = take(consumer)
    assert pack.bodies[:4] == [b"bootstrap %d" % number for number in range(2, 6)]
    end = consumer.confirm(pack)
    assert end == pack.start + 28 * len(pack)
    consumer.disconnect(KEY)
    assert consumer.connect(KEY, -1) == end


def test_positions_tell_fetched_and_confirmed_apart(tube: Cluster, consumer_of: MakeConsumer) -> None:
    before = time.time() * 1000
    key = partition_of("positions")
    offsets = tube.put(key, TWO_PACKS)
    consumer = consumer_of("positions", ["positions"])
    consumer.connect(key)
    first = take(consumer)
    position = consumer.positions()[key]
    assert (position.confirmed, position.fetched, position.end) == (offsets[0], offsets[2], offsets[2] + 28)
    assert before <= position.updated_ms <= time.time() * 1000
    assert consumer.confirm(first) == offsets[2]
    second = take(consumer)
    assert consumer.positions()[key].confirmed == second.start == offsets[2]
    consumer.confirm(second)
    position = consumer.positions()[key]
    assert (position.confirmed, position.fetched) == (offsets[2] + 28, offsets[2] + 28)


def test_close_gives_all_back_at_once(settings: ClientSettings, consumer_of: MakeConsumer) -> None:
    before = set(threading.enumerate())
    first = consumer_of("calls_close", ["calls"], source_count=1, node_id=0)
    for key in (KEY, OTHER):
        first.connect(key)
    # All clients of a process share the thread that watches for those that nobody closes.
    threads = {one for one in set(threading.enumerate()) - before if one.name != "tubeclient-forgotten"}
    assert threads
    first.close()
    # Without waiting, neither for the node nor for the partitions.
    second = consumer_of("calls_close", ["calls"], source_count=1, node_id=0)
    for key in (KEY, OTHER):
        second.connect(key)
    assert not any(thread.is_alive() for thread in threads)


def test_a_loop_confirms_what_it_comes_back_from(tube: Cluster, consumer_of: MakeConsumer) -> None:
    key = partition_of("loops")
    offsets = tube.put(key, TWO_PACKS)
    first = consumer_of("loops", ["loops"])
    first.connect(key)
    bound = threading.Timer(30, first.close)
    bound.start()
    starts = [delivery.start for delivery in itertools.islice(first, 2)]
    bound.cancel()
    first.close()
    assert starts == [offsets[0], offsets[2]]
    second = consumer_of("loops", ["loops"])
    assert second.connect(key) == offsets[2]
    assert len(drain(second, 1)) == 1
