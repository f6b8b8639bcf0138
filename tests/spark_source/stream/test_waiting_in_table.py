"""A partition that waits for its broker is known to the offsets table, so that a new checkpoint reads it no other way;
with a cluster in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_source.fakes import ROW, FakeClock, as_json, in_rows, key, planner
from tests.spark_source.stream.test_broker_down import FAR, MINUTE_5, cluster, waits
from tubeclient.keys import StoreKey


@pytest.mark.parametrize("back", ["before the new checkpoint begins", "after it began"])
@pytest.mark.parametrize(
    ("starting", "place", "entered"),
    [
        ({"startingOffsets": "group"}, "group", 5),
        ({"startingOffsets": "latest"}, "latest", 12),
        ({"startingTimestamp": MINUTE_5}, f"timestamp {MINUTE_5}", 5),
    ],
)
def test_a_new_checkpoint_lets_it_wait_for_the_same_place(
    tmp_path: Path, back: str, starting: dict[str, object], place: str, entered: int
) -> None:
    clock, one_down, table = FakeClock(), cluster(), tmp_path / "table"
    one_down.positions = {key("1:t:0"): 4 * ROW, key("2:t:0"): 5 * ROW}
    one = planner(one_down, clock, offsetsTable=table, **starting)
    at = one.initial()
    for rows in (11, 12):
        one_down.rows[StoreKey(1, "t", 0)] = (3, rows)
        clock.now += 60
        before, at = at, one.latest(at, None)
        one.partitions(before, at)
    clock.now += 60
    assert one.latest(at, None) == at == waits(12, place)
    one.close()
    one_down.rows[FAR] = (3, 12)
    if back == "before the new checkpoint begins":
        one_down.silent = set()
    new = planner(one_down, clock, offsetsTable=table, startingOffsets="group")
    assert new.initial() == waits(12, place)
    one_down.silent = set()
    first = new.initial() if back == "before the new checkpoint begins" else new.latest(new.initial(), None)
    clock.now += 60
    end = new.latest(first, None)
    assert end == as_json({"1:t:0": 12, "2:t:0": entered})
    new.partitions(first, end)
    one_down.rows[FAR] = (3, 13)
    clock.now += 60
    more = new.latest(end, None)
    assert in_rows(new.partitions(end, more)) == {1: [("2:t:0", entered, 13)]}
    new.complete(more)
    new.close()
    third = planner(one_down, clock, offsetsTable=table, startingOffsets="group")
    assert third.initial() == as_json({"1:t:0": 12, "2:t:0": 13})


def test_a_topic_of_which_all_waits_is_known(tmp_path: Path) -> None:
    """Else the new checkpoint would ask brokers, or begin as in a topic without a position."""
    clock, all_down, table = FakeClock(), cluster(), tmp_path / "table"
    one = planner(all_down, clock, offsetsTable=table, subscribe=None, assign='["2:t:0"]')
    start = one.initial()
    one.partitions(start, start)
    one.complete(start)
    one.close()
    new = planner(all_down, clock, offsetsTable=table, startingOffsets="group:earliest")
    assert new.initial() == {"1:t:0": {"0": 84}, "2:t:0": {"0": "latest"}, "version": 1}


def test_a_new_checkpoint_that_begins_while_the_broker_is_out_of_the_cluster_lets_it_wait_too(tmp_path: Path) -> None:
    clock, one_down, table = FakeClock(), cluster(), tmp_path / "table"
    one = planner(one_down, clock, offsetsTable=table)
    start = one.initial()
    one.partitions(start, start)
    one.complete(start)
    one.close()
    taken_out = one_down.layouts.pop()
    new = planner(one_down, clock, offsetsTable=table, startingOffsets="group")
    assert new.initial() == waits(10, "latest")
    one_down.layouts.append(taken_out)
    one_down.silent = set()
    first = new.latest(new.initial(), None)
    clock.now += 60
    assert new.latest(first, None) == as_json({"1:t:0": 10, "2:t:0": 10})
