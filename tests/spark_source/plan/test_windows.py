"""Partitions of a store that stand apart: nobody waits for long, wherever who stands, and they meet again."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from spark_source.plan.planning import StoreWindows, plan, share_rows, window_ends
from tubeclient.keys import INDEX_ENTRY_BYTES as ROW
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey

Stores = Mapping[StoreKey, StoreWindows]


@st.composite
def stores(draw: st.DrawFn) -> dict[StoreKey, StoreWindows]:
    """Up to 4 stores with partitions at up to 5 offsets, from next to each other to millions of rows apart."""
    found = {}
    for number in range(draw(st.integers(1, 4))):
        rows = draw(st.sets(st.integers(0, 8) | st.integers(0, 5_000_000), min_size=1, max_size=5))
        end = max(rows) + draw(st.sampled_from([0, 1, 5, 1_000_000]))
        found[StoreKey(1, "t", number)] = StoreWindows(sorted(row * ROW for row in rows), end * ROW)
    return found


def after(some: Stores, limit: int | None) -> dict[StoreKey, StoreWindows]:
    """Where all stand after a batch; nothing new has come."""
    ends = window_ends(some, limit)
    return {store: StoreWindows(sorted(set(ends[store].values())), of.end) for store, of in some.items()}


def positions(some: Stores) -> dict[tuple[StoreKey, int], int]:
    """One reader for each level of each store, by number."""
    return {(store, number): at for store, of in some.items() for number, at in enumerate(of.levels)}


def entries(some: Stores, limit: int | None) -> int:
    """The index entries in the windows of a batch, each once."""
    total = 0
    for store, of in some.items():
        ends, reached = window_ends(some, limit)[store], 0
        for level in of.levels:
            total += max(0, ends[level] - max(level, reached))
            reached = max(reached, ends[level])
    return total // ROW


@given(stores(), st.none() | st.integers(0, 40) | st.integers(0, 5_000_000))
def test_window_size_is_exact(some: Stores, limit: int | None) -> None:
    """Windows cover exactly as many entries as the limit allows."""
    backlog = sum(of.rows for of in some.values())
    assert entries(some, limit) == (backlog if limit is None else min(limit, backlog))


@given(stores(), st.integers(1, 20))
def test_every_partition_gets_its_turn(some: Stores, limit: int) -> None:
    """Each store has its turn in a round of the parts in front; two that meet may put the turns out of order."""
    stands = positions(some)
    waits = dict.fromkeys(stands, 0)
    longest = len(stands) * part_in_front(some) + 2 * len(stands)
    at = dict(some)
    for _ in range(2 * longest):
        ends = window_ends(at, limit)
        for reader, level in stands.items():
            stands[reader] = ends[reader[0]][level]
            waits[reader] = 0 if stands[reader] > level or level == at[reader[0]].end else waits[reader] + 1
        assert max(waits.values()) <= longest
        at = after(at, limit)


@given(stores(), st.integers(30, 5_000_000), st.data())
def test_they_meet_again_whatever_arrives(some: Stores, limit: int, data: st.DataObject) -> None:
    at, apart = dict(some), rows_apart(some)
    for _ in range(50):
        nearer = limit // 3 - part_in_front(at)  # a third of the rows at least, but for rounding
        at = after(at, limit)
        assert rows_apart(at) <= max(0, apart - nearer)
        apart = rows_apart(at)
        at = {
            store: StoreWindows(of.levels, of.end + ROW * data.draw(st.sampled_from([0, 1, limit, 10 * limit])))
            for store, of in at.items()
        }


def part_in_front(some: Stores) -> int:
    """Those in front have one row of so many."""
    return 1 + 2 * max(len(of.levels) - 1 for of in some.values())


def rows_apart(some: Stores) -> int:
    """How far all that lag stand from those in front of their store."""
    return sum((of.levels[-1] - level) // ROW for of in some.values() for level in of.levels)


def test_new_partition_delays_nobody() -> None:
    """5 million messages are kept, 50 000 are read a batch, and 10 000 come."""
    old, new, other = PartitionKey(1, "t", 0), PartitionKey(1, "t", 1), PartitionKey(1, "t", 10_000)
    low, end = 1_000_000 * ROW, 6_000_000 * ROW
    at = Offsets.of({old: end, other: end, new: low})
    batches = 0
    while at[new] < end:
        batches += 1
        end += 5_000 * ROW
        bounds = {old.store: StoreBounds(low, end), other.store: StoreBounds(low, end)}
        before, at = at, plan(at, [old, new, other], bounds, 50_000)
        assert at[old] == at[other] == end
        assert at[new] == end or at[new] - before[new] == 40_000 * ROW
    assert batches == 143  # 5 000 000 messages, from which those in front move 5 000 away each time


sharers = st.dictionaries(st.integers(0, 9), st.integers(0, 40), min_size=1)


@given(sharers, st.none() | st.integers(0, 30), st.integers(0, 100))
def test_shares(behind: dict[int, int], limit: int | None, turn: int) -> None:
    shares = share_rows(behind, limit, turn)
    total = sum(behind.values())
    assert sum(shares.values()) == (total if limit is None else min(total, limit))
    assert shares.keys() == behind.keys()
    assert all(0 <= shares[one] <= behind[one] for one in behind)
    waiting = [one for one, rows in behind.items() if rows]
    if limit is None or limit >= len(waiting):
        assert all(shares[one] for one in waiting)
        for one in waiting:  # more behind never gets less, but for the row that rounding decides
            assert all(shares[one] + 1 >= shares[other] for other in behind if behind[one] >= behind[other])
