"""Tables of one group that are not equally far: each gets each record once."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.levels import after, end_of_round, ends_of, lowest, missed, taken
from tubeclient_ingest.commits.record import WITH_REST, Count, Move, Reached, SinkRecord
from tubeclient_ingest.commits.stream_ends import GroupEnds, Stream
from tubeclient_ingest.settings.table_by import StreamId

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


def test_partitions_that_a_table_takes() -> None:
    """A table takes the partitions of a round in which its rows end where the round begins."""
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


def test_ends_by_the_counts_table() -> None:
    """The counts table says where a table's rows end only if it knows the table's last commit."""
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


def test_moves_that_a_table_missed() -> None:
    """A table that missed moves of the group's offsets ends where those moves put it."""
    other = PartitionKey(1, "other", 0)
    ends = Offsets({**at(a=5, b=9), other: 56})
    loss, reset, second = Move("t", 1, at(b=7), False), Move("t", 2, at(a=2, c=1), True), Move("t", 3, at(a=1), False)

    def come_to(own: int, now: int, *moves: Move) -> tuple[Offsets, set[str], set[str]]:
        found = missed(ends, {"t": own}, {"t": now, "more": 4}, moves)
        return found.ends, {*found.reset}, {*found.unknown}

    assert come_to(3, 3, loss, reset, second) == (ends, set(), set())
    assert come_to(0, 1, loss) == (Offsets({**at(a=5, b=7), other: 56}), set(), set())
    assert come_to(0, 3, loss, reset, second) == (Offsets({**at(a=1, c=1), other: 56}), {"t"}, set())
    assert come_to(2, 3, loss, reset, second) == (Offsets({**at(a=1, b=9), other: 56}), set(), set())
    # Some are no longer known.
    assert come_to(0, 3, reset, second)[1:] == ({"t"}, {"t"})
    assert come_to(0, 1)[1:] == (set(), {"t"})


def test_a_group_keeps_its_last_moves() -> None:
    group = GroupEnds()
    group.others, group.resets = at(a=9, b=9), {"t": 4}
    group.begin_at(at(a=3, b=9), at(a=9, b=9), {"t"})
    assert group.go_back(at(b=2))
    assert group.moves == (Move("t", 4, at(a=3, b=9), True), Move("t", 5, at(b=2), False))
    for _ in range(30):
        group.others = at(a=9, b=9)
        group.go_back(at(b=2))
    assert [one.number for one in group.moves] == [*range(16, 36)]
    record = SinkRecord("g", "r", at(a=9), resets=group.resets, moves=group.moves)
    assert SinkRecord.parse(record.to_json()) == record


def stream(ends: Offsets, number: int = 7, record: SinkRecord | None = None, **given: Any) -> Stream:
    """With a table whose newest commit has `record`."""
    table: Any = SimpleNamespace(state=SinkState(record, 7))
    return Stream(StreamId("s"), ends, number, table=table, **given)


def test_stream_outside_a_run_keeps_its_ends() -> None:
    """A stream that takes no part in a run still lacks what it lacked when a later run takes it."""
    group = GroupEnds()
    group.others = at(a=9, b=9)
    left_out, behind = Stream(StreamId("s"), at(a=2, b=9)), stream(at(b=3), left="refused")
    group.streams = {"s": left_out, "r": behind, "w": stream(group.others)}
    for end in (20, 40):
        start = Offsets({**at(c=5), **group.others})
        group.begin_at(start, group.others)
        group.complete(start, at(a=end, b=end, c=end))
        assert left_out.ends == at(a=2, b=9, c=5)
        assert behind.ends == at(b=3, c=5)  # of a, which the group knows, it lacks all
        assert group.streams["w"].ends is group.others


def test_round_before_the_rows_of_all_tables() -> None:
    """As it begins for a stream whose table is gone, and is made anew once an event says its columns."""
    group = GroupEnds()
    group.begin_at(at(a=5, b=8), at(a=5, b=8))
    assert group.end_of_round(at(a=0, b=3), at(a=20, b=9)) == at(a=5, b=8)
    assert group.end_of_round(at(a=5, b=8), at(a=20, b=9)) == at(a=20, b=9)


def test_a_round_past_the_rows_of_a_table_is_an_error() -> None:
    """Nobody would read again what comes between. Where brokers no longer have that, the run begins after it."""
    group = GroupEnds()
    group.begin_at(at(a=5), at(a=5))
    with pytest.raises(RuntimeError, match="rows end at"):
        group.end_of_round(at(a=6), at(a=20))
    group.begin_at(at(a=6), at(a=5))
    assert group.end_of_round(at(a=6), at(a=20)) == at(a=20)


def test_tables_at_different_offsets() -> None:
    """Tables at equal offsets share their ends, and tables that are apart meet."""
    group = GroupEnds()
    group.others = at(a=5, b=5)
    same, ahead, left = stream(group.others), stream(at(a=8, b=5)), stream(at(a=1, b=1), left="why")
    group.streams.update({StreamId("same"): same, StreamId("left"): left})
    end = at(a=9, b=9)
    assert group.ahead() is None
    assert group.end_of_round(group.others, end) == end
    group.streams[StreamId("ahead")] = ahead
    assert group.levels() == [at(a=5, b=5), at(a=8, b=5)]
    assert group.ahead() == at(a=8, b=5)
    assert group.end_of_round(group.others, end) == at(a=8, b=9)
    # A partition that stands still has not gone back.
    group.complete(at(a=5, b=5), at(a=5, b=7))
    assert (same.ends, ahead.ends, left.ends) == (at(a=5, b=7), at(a=8, b=7), at(a=1, b=1))
    group.complete(at(a=5, b=7), at(a=8, b=9))
    assert ahead.ends is same.ends is group.others
    assert (group.others, left.ends, group.ahead()) == (at(a=8, b=9), at(a=1, b=1), None)


def test_start_and_going_back() -> None:
    """A run begins where it reads, and goes back if the brokers' data ends earlier."""
    group = GroupEnds()
    group.others = at(a=5)
    same, ahead = stream(group.others), stream(at(a=8), since=at(a=6))
    group.streams.update({StreamId("same"): same, StreamId("ahead"): ahead})
    # What the run does not read stays in the counts table.
    group.begin_at(at(a=5, b=2), at(a=4, c=7))
    assert same.ends is group.others
    assert (group.others, ahead.ends) == (at(a=5, b=2, c=7), at(a=8, b=2))
    # A round has no rows on both sides of the place where those of a stream's own table begin.
    assert group.end_of_round(at(a=5, b=2), at(a=9, b=9)) == at(a=6, b=9)
    group.go_back(at(a=7))
    assert (group.others, ahead.ends, ahead.since) == (at(a=5, b=2, c=7), at(a=7, b=2), at(a=6))
    group.complete(at(a=5, b=2), at(a=3, b=2))
    assert (group.others, ahead.ends, ahead.since) == (at(a=3, b=2, c=7), at(a=3, b=2), at(a=3))
    assert same.since is None


def test_counts_and_ends_of_a_stream() -> None:
    """A stream reports which counts the counts table lacks and where its rows end."""
    counts = (Count(None, 3),)
    one = stream(at(a=5), record=SinkRecord("g", "r", at(), 7, counts=counts), counted=6)
    assert one.uncounted == counts
    others = replace(one, counted=7), replace(one, number=6), replace(one, table=None), stream(at())
    assert [other.uncounted for other in others] == [()] * 4
    assert [one.takes_part, others[2].takes_part, replace(one, left="why").takes_part] == [True, False, False]
    assert one.reached(one.ends) == Reached(7)
    assert replace(one, number=0, since=at(a=1)).reached(at(a=9)) == Reached(0, at(a=5), at(a=1))
    assert replace(one, number=-1).reached(one.ends) == WITH_REST


def test_rows_before_a_streams_own_table() -> None:
    """Rows from before a stream's own table are in the table for the rest."""
    one = stream(at(a=8), since=at(a=5))
    assert [one.is_in_rest(A, at(a=number)) for number in (4, 5, 6)] == [True, False, False]
    assert [one.is_in_rest(A, at()), one.is_in_rest(B, at()), stream(at()).is_in_rest(A, at())] == [True, False, False]


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
