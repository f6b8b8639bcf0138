"""Tables of one group that are not equally far: each gets each record once."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient_ingest.levels import after, end_of_round, ends_of, lowest, taken
from tubeclient_ingest.record import Reached

WHOLE = 30 * INDEX_ENTRY_BYTES
A, B, C = (PartitionKey(1, "t", number) for number in range(3))


def at(**numbers: int) -> Offsets:
    keys = {"a": A, "b": B, "c": C}
    return Offsets({keys[name]: INDEX_ENTRY_BYTES * number for name, number in numbers.items()})


def test_a_round_ends_where_the_rows_of_a_table_end() -> None:
    several = [at(a=5, b=5), at(a=7, b=5), at(a=9, b=5)]
    assert lowest(several) == at(a=5, b=5)
    assert end_of_round(at(a=5, b=5), at(a=20, b=8), several) == at(a=7, b=8)
    assert end_of_round(at(a=9, b=8), at(a=20, b=9), several) == at(a=20, b=9)


def test_a_table_takes_the_partitions_in_which_its_rows_end_where_the_round_begins() -> None:
    start, end = at(a=5, b=5), at(a=7, b=8)
    assert taken(at(a=5, b=5), start, end) == {A, B}
    assert taken(at(a=7, b=5), start, end) == {B}
    assert after(at(a=7, b=5), start, end) == at(a=7, b=8)
    # Nothing is read of a partition that stands still.
    assert taken(at(a=5, b=5), start, at(a=5, b=8)) == {B}


def test_a_partition_may_come_go_and_lose_its_tail() -> None:
    start, end = at(a=5, b=5), at(a=3, c=2)
    assert after(at(a=5, b=5), start, end) == at(a=3, c=2)
    assert after(at(a=9, b=5), start, end) == at(a=3, c=2)
    # It came while another run wrote, which had it already.
    assert taken(at(a=5, c=2), at(a=5), at(a=5, c=2)) == set()


def test_the_counts_table_says_up_to_where_there_is_nothing_more_for_a_table() -> None:
    own, group = at(a=5), at(a=9)
    assert ends_of(3, own, Reached(3), group) == group
    assert ends_of(3, own, Reached(3, at(a=7)), group) == at(a=7)
    # The table went on, or was put back, without the counts table.
    assert ends_of(4, own, Reached(3), group) == own
    assert ends_of(2, own, Reached(3, at(a=7)), group) == own
    # Nobody knows the stream: it has a table from a run that died, or none.
    assert ends_of(1, own, None, group) == own
    assert ends_of(0, at(), None, group) == group
    # It has not come to write anything yet, or its table is gone.
    assert ends_of(0, at(), Reached(0, at(a=7)), group) == at(a=7)
    assert ends_of(0, at(), Reached(3), group) == at()


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_each_table_gets_each_record_once_whoever_dies(seed: int, tables: int) -> None:
    """Rounds of a run, of which any table may fail, and after any of whose commits it may die."""
    rng = random.Random(seed)
    names = [f"s{number}" for number in range(tables)]
    rows: dict[str, list[tuple[PartitionKey, int]]] = {name: [] for name in names}
    number = dict.fromkeys(names, 0)
    own: dict[str, Offsets] = dict.fromkeys(names, at())
    counts: tuple[Offsets, dict[str, Reached]] = (at(a=0, b=0), {name: Reached(0) for name in names})
    partitions = [A, B]
    for life in range(12):
        faults = life < 11
        partitions = partitions if life < 5 else [A, B, C]
        group, reached = counts
        ends = {name: ends_of(number[name], own[name], reached[name], group) for name in names}
        left: set[str] = set()
        while True:
            taking = [name for name in names if name not in left]
            start = lowest([group, *(ends[name] for name in taking)])
            start = Offsets(dict.fromkeys(partitions, 0)).merge(start)
            group = start.merge(group)
            ends = {name: start.merge(one) for name, one in ends.items()}
            high = {key: min(WHOLE, low + INDEX_ENTRY_BYTES * rng.randrange(9)) for key, low in start.items()}
            if not faults:
                high = dict.fromkeys(start, WHOLE)
            end = end_of_round(start, Offsets(high), [group, *(ends[name] for name in taking)])
            if end == start and (faults or min(start.values()) == WHOLE):
                break
            dies_before = rng.randrange(tables + 2) if faults and rng.random() < 0.4 else None
            for index, name in enumerate(taking):
                if index == dies_before:
                    break
                part = taken(ends[name], start, end)
                new = [(key, low) for key in part for low in range(start[key], end[key], INDEX_ENTRY_BYTES)]
                if name == "s1":  # it seldom has rows, and commits nothing then
                    new = [one for one in new if one[1] % 280 == 0]
                if not new:
                    continue
                if faults and rng.random() < 0.1:
                    left.add(name)
                    continue
                rows[name] += new
                own[name], number[name] = after(ends[name], start, end), number[name] + 1
            if dies_before is not None:
                break
            ends = {name: one if name in left else after(one, start, end) for name, one in ends.items()}
            group = after(group, start, end)
            counts = group, {name: Reached(number[name], None if ends[name] == group else ends[name]) for name in names}
    everything = {(key, low) for key in (A, B, C) for low in range(0, WHOLE, INDEX_ENTRY_BYTES)}
    for name in names:
        assert len(rows[name]) == len(set(rows[name]))
        assert set(rows[name]) == {one for one in everything if name != "s1" or one[1] % 280 == 0}
