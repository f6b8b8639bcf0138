"""Positions of groups, told and changed, and what Java's consumer makes of it: on both clusters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apache.both import *  # noqa: F403
from tests.apache.both import offsets_of
from tests.apache.java_client import JavaBalanceConsumer, JavaPack
from tests.waiting import wait_for
from tubeclient import Admin, PartitionKey

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
