"""What ClientBalanceConsumer asks brokers and masters for, they do: positions, packs that come again, filters."""

from __future__ import annotations

import time

import pytest

from tests.conformance.clients import drain, partition_of, take
from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.waiting import wait_for
from tubeclient import Admin, BootstrapOffset, ClientSettings, DataLoss, StalePack
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.wire.payload import java_string_hash

CALLS, OTHER = partition_of("calls"), partition_of("calls", 2)
TAGS = partition_of("tags")
SEEKS = partition_of("seeks")


def test_start_registers_topics_filters_count_and_node(
    tube: Cluster, settings: ClientSettings, consumer_of: MakeConsumer
) -> None:
    wanted = {"calls": [], "calls_filtered": ["wanted", "needed"]}
    consumer = consumer_of("calls_start", wanted, source_count=3, node_id=1)
    consumer.connect(OTHER)

    def shown() -> tuple[object, ...]:
        group = Admin(settings).group("calls_start")
        assert (group.kind, set(group.topics)) == ("client-rebalance", set(wanted))
        assert group.filters == {"calls_filtered": frozenset(["needed", "wanted"])}
        [member] = group.members
        return member.client_id, member.source_count, member.node_id, member.partitions

    wait_for(lambda: shown() == (consumer.consumer_id, 3, 1, (OTHER,)), "the master to show what is connected")


def test_bootstrap_offset(tube: Cluster, consumer_of: MakeConsumer) -> None:
    """A bootstrap offset moves the group; without one the group resumes where it was."""
    offsets = tube.put(CALLS, [b"bootstrap %d" % number for number in range(6)])
    consumer = consumer_of("calls_bootstrap", ["calls"])
    assert consumer.connect(CALLS, offsets[2]) == offsets[2]
    assert take(consumer).start == offsets[2]
    consumer.disconnect(CALLS, wait_ms=0)  # the pack that is out is rolled back
    assert consumer.connect(CALLS) == offsets[2]
    pack = take(consumer)
    assert pack.bodies[:4] == [b"bootstrap %d" % number for number in range(2, 6)]
    end = consumer.confirm(pack)
    assert end == pack.start + INDEX_ENTRY_BYTES * len(pack)
    consumer.disconnect(CALLS)
    assert consumer.connect(CALLS, -1) == end


def test_positions_tell_fetched_and_confirmed_apart(tube: Cluster, consumer_of: MakeConsumer) -> None:
    before = time.time() * 1000
    key = partition_of("positions")
    # A pack is full with the message that crosses 320 KiB (the first one after a connect) or 512 KiB.
    offsets = tube.put(key, [bytes(300_000)] * 3)
    consumer = consumer_of("positions", ["positions"])
    consumer.connect(key)
    first = take(consumer)
    position = consumer.positions()[key]
    end = offsets[2] + INDEX_ENTRY_BYTES
    assert (position.confirmed, position.fetched, position.end) == (offsets[0], offsets[2], end)
    assert before <= position.updated_ms <= time.time() * 1000
    assert consumer.confirm(first) == offsets[2]
    consumer.confirm(take(consumer))
    position = consumer.positions()[key]
    assert (position.confirmed, position.fetched) == (end, end)


def test_close_gives_node_and_partitions_back_at_once(consumer_of: MakeConsumer) -> None:
    for _ in range(2):
        consumer = consumer_of("calls_close", ["calls"], source_count=1, node_id=0)
        for key in (CALLS, OTHER):
            consumer.connect(key)
        consumer.close()


def test_a_pack_that_was_not_consumed_comes_again(tube: Cluster, consumer_of: MakeConsumer) -> None:
    offsets = tube.put(CALLS, [b"again %d" % number for number in range(3)])
    consumer = consumer_of("confirm_again", ["calls"])
    consumer.connect(CALLS, offsets[0])
    first = take(consumer)
    assert consumer.confirm(first, consumed=False) == offsets[0]
    second = take(consumer)
    assert (second.start, second.message_ids, second.bodies) == (first.start, first.message_ids, first.bodies)
    assert consumer.confirm(second) == offsets[2] + INDEX_ENTRY_BYTES


def test_tags_with_unusual_characters(tube: Cluster, consumer_of: MakeConsumer) -> None:
    """A consumer filters by tags with spaces, colons, non-ASCII text, and up to 256 characters."""
    tags = ["two words", "x:y", "@me", "a.b-c_d", "中文", "t" * 256]
    [start] = tube.put(TAGS, [b"another's"], tag="two")
    for tag in tags:
        tube.put(TAGS, [tag.encode()], tag=tag)
        tube.put(TAGS, [b"none"])
    consumer = consumer_of("tags_odd", {"tags": tags})
    consumer.connect(TAGS, start)
    assert [body.decode() for _, body in drain(consumer, len(tags))] == tags
    assert consumer.get(timeout_ms=300) is None


def test_unmatched_tags_are_skipped(tube: Cluster, consumer_of: MakeConsumer) -> None:
    """Neither holds the group's position up. Brokers compare a 32-bit hash."""
    assert java_string_hash("Aa") == java_string_hash("BB")
    [start] = tube.put(TAGS, [b"another's"], tag="BB")
    tube.put(TAGS, [b"others"] * 3, tag="other")
    consumer = consumer_of("tags_over", {"tags": ["Aa"]})
    consumer.connect(TAGS, start)
    assert consumer.get(timeout_ms=500) is None
    [mark] = tube.put(TAGS, [b"mark"], tag="Aa")
    pack = take(consumer)
    assert (pack.start, pack.bodies) == (mark, [b"mark"])
    assert consumer.confirm(pack) == mark + INDEX_ENTRY_BYTES


@pytest.mark.parametrize("move", ["forwards", "backwards", "earliest", "latest"])
def test_connecting_again_moves_the_partition(tube: Cluster, consumer_of: MakeConsumer, move: str) -> None:
    offsets = tube.put(SEEKS, [b"%s %d" % (move.encode(), number) for number in range(5)])
    end = offsets[-1] + INDEX_ENTRY_BYTES
    wanted = {
        "forwards": (offsets[3], offsets[3]),
        "backwards": (offsets[0], offsets[0]),
        "earliest": (BootstrapOffset.EARLIEST, 0),
        "latest": (BootstrapOffset.LATEST, end),
    }
    to, start = wanted[move]
    consumer = consumer_of(f"seek_{move}", ["seeks"])
    assert consumer.connect(SEEKS, offsets[1]) == offsets[1]
    out = take(consumer)
    assert consumer.connect(SEEKS, to) == start
    with pytest.raises(StalePack):
        consumer.confirm(out)
    if start == end:
        [late] = tube.put(SEEKS, [b"late"])
        assert (late, take(consumer).bodies) == (end, [b"late"])
    else:
        again = take(consumer)
        assert again.start == start
        assert consumer.confirm(again) == end


@pytest.mark.parametrize(("start_from", "at_end"), [("earliest", False), ("latest", True), ("always_latest", True)])
def test_where_a_new_group_begins(tube: Cluster, consumer_of: MakeConsumer, start_from: str, at_end: bool) -> None:
    offsets = tube.put(SEEKS, [b"older", b"newer"])
    consumer = consumer_of(f"seek_new_{start_from}", ["seeks"], start_from=start_from)
    assert consumer.connect(SEEKS) == (offsets[-1] + INDEX_ENTRY_BYTES if at_end else 0)


def test_an_offset_behind_the_end_is_data_loss(tube: Cluster, consumer_of: MakeConsumer) -> None:
    [offset] = tube.put(SEEKS, [b"the last one"])
    end = offset + INDEX_ENTRY_BYTES
    beyond = end + 100 * INDEX_ENTRY_BYTES
    consumer = consumer_of("seek_beyond", ["seeks"])
    with pytest.raises(DataLoss, match=f"1:seeks:0.* {beyond} .*fail_on_data_loss") as caught:
        consumer.connect(SEEKS, beyond)
    assert (caught.value.partition, caught.value.wanted, caught.value.found) == (str(SEEKS), beyond, end)
    # The partition was not kept: another client has it at once.
    other = consumer_of("seek_beyond", ["seeks"], fail_on_data_loss=False)
    assert other.connect(SEEKS, beyond) == end
