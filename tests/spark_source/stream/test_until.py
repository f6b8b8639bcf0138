"""Reads that end where somebody said: each partition at its own place, whatever comes in, and again after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offset_spec import Moment, OffsetSpec
from spark_source.offsets.offsets import Offsets
from tests.spark_source.fakes import ROW, FakeClock, FakeCluster, as_json, in_rows, planner
from tubeclient.errors import ConfigurationError, ConnectError, NoMessageTime
from tubeclient.keys import StoreKey

PARTITIONS = ("1:t:0", "1:t:1", "1:t:10000", "1:t:10001")
ENDS = st.lists(st.integers(0, 25), min_size=4, max_size=4)


def in_json(rows: Mapping[str, int]) -> str:
    return json.dumps({name: at * ROW for name, at in rows.items()})


def until_rows(rows: Mapping[str, int]) -> OffsetSpec:
    return OffsetSpec.parse(in_json(rows), "until")


def cluster_of_two_stores(rows: int = 25) -> FakeCluster:
    return FakeCluster(stores=2, partitions=2, rows=(0, rows))


def read_on(
    cluster: FakeCluster, start: str, until: OffsetSpec, max_rows: int | None = None, batches: int = 1000
) -> tuple[dict[str, int], list[tuple[str, int, int]]]:
    """Read to the end, or so many batches, while messages come in; returns the rows reached, and the ranges."""
    clock, found = FakeClock(), []
    one = planner(cluster, clock, startingOffsets=start)
    one.freeze_end(until)
    at = one.initial()
    while batches and (end := one.latest(at, max_rows)) is not at:
        found += [read for some in in_rows(one.partitions(at, end)).values() for read in some]
        cluster.rows = {store: (low, high + 5) for store, (low, high) in cluster.rows.items()}
        clock.now += 10
        at, batches = end, batches - 1
    one.close()
    return {str(key): offset // ROW for key, offset in Offsets.from_dict(at).items()}, found


@given(ENDS, ENDS, st.sampled_from([None, 1, 2, 7]), st.integers(0, 6))
def test_each_partition_ends_at_its_own_place(
    starts: list[int], ends: list[int], max_rows: int | None, killed_after: int
) -> None:
    """Each partition is read once up to its own end, or not at all if it is past it."""
    cluster = cluster_of_two_stores()
    begin, until = (dict(zip(PARTITIONS, rows, strict=True)) for rows in (starts, ends))
    end = {name: max(begin[name], until[name]) for name in PARTITIONS}
    reached, before = read_on(cluster, in_json(begin), until_rows(until), max_rows, killed_after)
    reached, after = read_on(cluster, in_json(reached), until_rows(until), max_rows)
    assert reached == end
    assert read_on(cluster, in_json(reached), until_rows(until), max_rows) == (end, [])
    for name in PARTITIONS:
        at = begin[name]
        for low, high in (piece[1:] for piece in [*before, *after] if piece[0] == name):
            assert low == at
            at = high
        assert at == end[name]


def test_end_at_a_time() -> None:
    """A time ends a partition where its minute begins, or else at the end of the data."""
    cluster = cluster_of_two_stores(10)
    cluster.rows[StoreKey(1, "t", 1)] = (0, 5)
    until = OffsetSpec("until", Moment(8 * 60_000 + 59_000))
    reached, _ = read_on(cluster, "earliest", until, batches=1)
    assert reached == {"1:t:0": 8, "1:t:1": 8, "1:t:10000": 5, "1:t:10001": 5}
    one = planner(cluster, startingOffsets=in_json(reached))
    one.freeze_end(OffsetSpec("until", Moment(5 * 60_000)))
    assert one.is_at_end(one.initial(), is_first=False)
    assert one.latest(one.initial(), None) == as_json(reached)  # past its end a partition stays
    assert one.reported_latest() == as_json(dict.fromkeys(PARTITIONS, 5))


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ({**dict.fromkeys(PARTITIONS, 10), "1:t:1": 11}, "until has 308 for partition 1:t:1, whose data ends at 280"),
        ({**dict.fromkeys(PARTITIONS, 10), "1:t:2": 1}, "until names 1:t:2, which the subscribed topics do not have"),
        (dict.fromkeys(PARTITIONS[:3], 10), "until has no entry for 1:t:10001; add the missing"),
    ],
)
def test_ends_that_are_not_there(until: dict[str, int], said: str) -> None:
    one = planner(cluster_of_two_stores(10))
    with pytest.raises(ConfigurationError, match=said):
        one.freeze_end(until_rows(until))


def test_end_before_the_start() -> None:
    """An end before the start is an error only before the first batch."""
    one = planner(cluster_of_two_stores(10), startingOffsets=in_json(dict.fromkeys(PARTITIONS, 5)))
    one.freeze_end(until_rows({**dict.fromkeys(PARTITIONS, 5), "1:t:1": 4}))
    start = one.initial()
    with pytest.raises(ConfigurationError, match="until has 112 for partition 1:t:1, which begins at 140"):
        one.is_at_end(start, is_first=True)
    assert one.is_at_end(start, is_first=False)


def test_a_broker_that_is_silent() -> None:
    """A time cannot be found there, so that is an error at once. What has reached its offset waits for nobody."""
    cluster = cluster_of_two_stores(10)
    cluster.silent = {1}
    one = planner(cluster, startingOffsets="earliest")
    with pytest.raises(ConnectError, match="until is a time, which must be looked up at the brokers"):
        one.freeze_end(OffsetSpec("until", Moment(0)))
    until = {**dict.fromkeys(PARTITIONS, 10), "1:t:1": 4}
    for reached, waits in ((until, False), ({**until, "1:t:1": 3}, True)):
        one = planner(cluster, startingOffsets=in_json(reached))
        one.freeze_end(until_rows(until))
        at: Any = one.initial()
        if waits:
            with pytest.raises(ConnectError, match=r"read all except 1 partition \(1:t:1\)"):
                one.latest(at, None)
        else:
            assert one.latest(at, None) is at
        one.close()


def test_messages_without_times() -> None:
    cluster = cluster_of_two_stores(10)
    cluster.timeless = NoMessageTime("a message of partition 1:t:0 carries no time", partition="1:t:0")
    with pytest.raises(
        ConfigurationError,
        match=r"a start or end by time .* carries no time\. Let the producers of topic t set it, or name",
    ):
        planner(cluster).freeze_end(OffsetSpec("until", Moment(0)))
