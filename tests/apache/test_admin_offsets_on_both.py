"""Positions of groups, told and changed, and what Java's consumer makes of it: on both clusters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apache.both import *  # noqa: F403
from tests.apache.both import offsets_of
from tests.apache.java_client import JavaBalanceConsumer, JavaPack
from tests.waiting import wait_for
from tubeclient import Admin, ConfigurationError, PartitionKey, UnknownGroup

pytestmark = pytest.mark.apache

ROW = 28
KEYS = [PartitionKey(broker_id, "admin_single", n) for broker_id in (1, 2) for n in (0, 10_000)]
FIRST, SECOND, OTHER_BROKER = KEYS[0], KEYS[1], KEYS[2]

JavaReader = Callable[[str], JavaBalanceConsumer]
Produce = Callable[[str, int], None]


def connected(consumer: JavaBalanceConsumer, key: PartitionKey) -> JavaBalanceConsumer:
    """A started consumer that reads `key` from wherever its group stands."""
    consumer.start({"admin_single": []})
    consumer.await_partitions(4)
    consumer.connect(str(key), -1)
    return consumer


def fetched(consumer: JavaBalanceConsumer) -> JavaPack:
    """The consumer's next pack."""
    packs: list[JavaPack | None] = []

    def came() -> JavaPack | None:
        packs.append(consumer.get_message())
        return packs[-1]

    wait_for(came, "a pack")
    pack = packs[-1]
    assert pack is not None
    return pack


def end_of(admin: Admin, key: PartitionKey) -> int:
    return admin.store_bounds([key.topic])[key.store].max_offset


def test_a_consumer_starts_where_its_group_was_set(admin: Admin, produce: Produce, java_reader: JavaReader) -> None:
    produce("admin_single", 4)
    end = end_of(admin, FIRST)
    assert admin.set_offsets("admin_set", {FIRST: end - 2 * ROW, OTHER_BROKER: ROW}) == {FIRST: 0, OTHER_BROKER: 0}
    offsets = offsets_of(admin, "admin_set", positions=2)
    assert offsets.committed == {FIRST: end - 2 * ROW, OTHER_BROKER: ROW}
    pack = fetched(connected(java_reader("admin_set"), FIRST))
    assert (pack.curr_offset, len(pack.messages)) == (end - 2 * ROW, 2)
    assert admin.set_offsets("admin_set", {FIRST: end}) == {FIRST: end - 2 * ROW}


def test_committed_in_flight_end_and_rows_behind(admin: Admin, produce: Produce, java_reader: JavaReader) -> None:
    produce("admin_single", 5)
    end = end_of(admin, FIRST)
    admin.set_offsets("admin_lag", {FIRST: end - 5 * ROW, SECOND: end_of(admin, SECOND)})
    consumer = connected(java_reader("admin_lag"), FIRST)
    pack = fetched(consumer)
    first, second = offsets_of(admin, "admin_lag", positions=2).positions
    assert (first.partition, first.committed, first.in_flight, first.end) == (FIRST, end - 5 * ROW, 5 * ROW, end)
    assert (first.rows_behind, second.rows_behind) == (5, 0)
    consumer.confirm(pack.confirm_context)
    assert admin.group_offsets("admin_lag", ["admin_single"]).rows_behind == 0


def test_partitions_of_one_store_count_their_rows_once(admin: Admin, produce: Produce) -> None:
    produce("admin_shared", 2)
    keys = [PartitionKey(1, "admin_shared", n) for n in range(3)]
    end = end_of(admin, keys[0])
    admin.set_offsets("admin_once", dict(zip(keys, (end, end - 2 * ROW, end - ROW), strict=True)))
    offsets = offsets_of(admin, "admin_once", positions=3)
    assert [position.rows_behind for position in offsets.positions] == [0, 2, 1]
    assert offsets.rows_behind == 2


def test_setting_drops_what_is_in_flight(admin: Admin, produce: Produce, java_reader: JavaReader) -> None:
    produce("admin_single", 3)
    end = end_of(admin, FIRST)
    admin.set_offsets("admin_running", {FIRST: end - 3 * ROW})
    consumer = connected(java_reader("admin_running"), FIRST)
    pack = fetched(consumer)
    assert admin.set_offsets("admin_running", {FIRST: end - ROW}) == {FIRST: end - 3 * ROW}
    assert consumer.confirm(pack.confirm_context) == end - ROW
    again = fetched(consumer)
    assert (again.curr_offset, len(again.messages)) == (end - ROW, 1)


def test_a_cloned_group_starts_where_the_other_one_stands(
    admin: Admin, produce: Produce, java_reader: JavaReader
) -> None:
    produce("admin_single", 3)
    end = end_of(admin, FIRST)
    wanted = {FIRST: end - ROW, OTHER_BROKER: ROW}
    admin.set_offsets("admin_origin", wanted)
    offsets_of(admin, "admin_origin", positions=2)
    assert admin.clone_offsets("admin_origin", "admin_copy").committed == wanted
    assert offsets_of(admin, "admin_copy", positions=2).committed == wanted
    pack = fetched(connected(java_reader("admin_copy"), FIRST))
    assert (pack.curr_offset, len(pack.messages)) == (end - ROW, 1)
    assert admin.group_offsets("admin_origin").committed == wanted


def test_a_removed_group_starts_anew(admin: Admin, produce: Produce, java_reader: JavaReader) -> None:
    produce("admin_single", 3)
    wanted = {FIRST: 2 * ROW, OTHER_BROKER: ROW}
    admin.set_offsets("admin_gone", wanted)
    offsets_of(admin, "admin_gone", positions=2)
    with pytest.raises(UnknownGroup, match="admin_shared"):
        admin.remove_offsets("admin_gone", ["admin_shared"])
    assert admin.remove_offsets("admin_gone", ["admin_single"]).committed == wanted
    with pytest.raises(UnknownGroup, match="admin_gone"):
        admin.group_offsets("admin_gone")
    assert fetched(connected(java_reader("admin_gone"), FIRST)).curr_offset == 0


def test_topics_limit_what_is_told_cloned_and_removed(admin: Admin, produce: Produce) -> None:
    produce("admin_single", 1)
    produce("admin_shared", 1)
    single, shared = {FIRST: ROW, OTHER_BROKER: 0}, {PartitionKey(1, "admin_shared", 2): ROW}
    admin.set_offsets("admin_two_topics", single | shared)
    offsets_of(admin, "admin_two_topics", positions=3)
    assert admin.group_offsets("admin_two_topics", ["admin_shared"]).committed == shared
    assert admin.clone_offsets("admin_two_topics", "admin_one_topic", ["admin_single"]).committed == single
    assert offsets_of(admin, "admin_one_topic", positions=2).committed == single
    assert admin.remove_offsets("admin_two_topics", ["admin_single"]).committed == single
    assert admin.group_offsets("admin_two_topics").committed == shared


def test_what_cannot_be_is_refused_before_anything_changes(admin: Admin, produce: Produce) -> None:
    produce("admin_single", 2)
    end = end_of(admin, OTHER_BROKER)
    admin.set_offsets("admin_wrong", {FIRST: ROW})
    before = offsets_of(admin, "admin_wrong", positions=1)
    for wrong, text in (
        ({OTHER_BROKER: ROW + 1}, "29 of partition 2:admin_single:0 is not a multiple of 28"),
        ({OTHER_BROKER: -ROW}, "-28 of partition 2:admin_single:0"),
        ({OTHER_BROKER: end + ROW}, rf"{end + ROW} of partition 2:admin_single:0 is not within .*\[0, {end}\]"),
        ({PartitionKey(2, "admin_single", 1): 0}, "no such partition.*2:admin_single:1;"),
        ({PartitionKey(2, "admin_single", 20_000): 0}, "no such partition.*2:admin_single:20000"),
        ({PartitionKey(3, "admin_single", 0): 0}, "no such partition.*3:admin_single:0"),
        ({PartitionKey(2, "admin_nothing", 0): 0}, "no such topic.*admin_nothing"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            admin.set_offsets("admin_wrong", {FIRST: 0, **wrong})
    with pytest.raises(ConfigurationError, match="no offsets"):
        admin.set_offsets("admin_wrong", {})
    assert admin.group_offsets("admin_wrong").committed == before.committed


def test_a_group_that_no_broker_knows_is_named(admin: Admin) -> None:
    with pytest.raises(UnknownGroup, match="admin_stranger"):
        admin.group_offsets("admin_stranger")
    with pytest.raises(UnknownGroup, match="admin_stranger"):
        admin.clone_offsets("admin_stranger", "admin_copy_of_nothing")
    with pytest.raises(UnknownGroup, match="admin_stranger"):
        admin.remove_offsets("admin_stranger")
    for name in ("", " ", "one,two"):
        with pytest.raises(ConfigurationError, match="is not a group name"):
            admin.group_offsets(name)
