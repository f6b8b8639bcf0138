"""The last positions of a group, from real tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from offsets_store.health import past_of
from offsets_store.rows import Row, Stamp, position_rows
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at

Open = Callable[[], OffsetsTable]
GROUP = KEY.consumer_group


def told(table: OffsetsTable, clock: Clock, limit: int = 10) -> dict[str, list[tuple[int, int, int | None]]]:
    """By partition (seconds ago, next offset, rows behind), the oldest first."""
    past = table.past(GROUP, limit)
    assert past is not None
    now = datetime.fromtimestamp(clock.now / 1000, UTC)
    return {
        str(partition): [((now - one.at).seconds, one.next_offset, one.rows_behind) for one in seen]
        for partition, seen in past.positions.items()
    }


def test_each_commit_of_the_group_is_one_position_of_each_partition(open_table: Open, clock: Clock) -> None:
    run = open_table().open_run(KEY, 1)
    other = open_table().open_run(GroupKey("other", ["clicks"]), 1)
    for step in range(1, 5):
        clock.now += 1_000
        run.record(at({FIRST: 28 * step, SECOND: 280}))
        other.record(at({FIRST: 2800 * step}))
    assert told(open_table(), clock, 3) == {
        "1:clicks:0": [(2, 56, 10), (1, 84, 10), (0, 112, 10)],
        "1:clicks:10000": [(2, 280, 10), (1, 280, 10), (0, 280, 10)],
    }
    assert len(told(open_table(), clock)["1:clicks:0"]) == 4


def test_a_row_that_a_commit_left_alone_is_no_second_position(open_table: Open, clock: Clock) -> None:
    run = open_table().share_run(KEY, 2)
    run.record(at({FIRST: 28, SECOND: 28}))
    for step in (2, 3):
        clock.now += 1_000
        run.record(at({FIRST: 28 * step}))
    assert told(open_table(), clock) == {
        "1:clicks:0": [(2, 28, 10), (1, 56, 10), (0, 84, 10)],
        "1:clicks:10000": [(2, 28, 10)],
    }


def test_the_place_where_a_query_began_is_its_first_position(open_table: Open, clock: Clock) -> None:
    open_table().open_run(KEY, 1).record(at({FIRST: 2800}))
    clock.now += 60_000
    run = open_table().open_run(KEY, 1)
    run.keep_initial("earliest", {FIRST: 28}, {SECOND: "earliest"})
    assert told(open_table(), clock) == {"1:clicks:0": [(60, 2800, 10), (0, 28, None)], "1:clicks:10000": []}
    run.clear_initial()
    clock.now += 1_000
    run.record(at({FIRST: 280}), waiting={SECOND: "earliest"})
    assert told(open_table(), clock)["1:clicks:0"] == [(61, 2800, 10), (1, 28, None), (0, 280, 10)]
    assert told(open_table(), clock)["1:clicks:10000"] == []


def test_only_the_topics_of_the_newest_run_count(open_table: Open, clock: Clock) -> None:
    open_table().open_run(KEY, 1).record(at({FIRST: 28, SECOND: 28}))
    pattern = GroupKey(GROUP, pattern="cl.*")
    open_table().open_run(pattern, 1, force=True).record(at({FIRST: 56}))
    past = open_table().past(GROUP)
    assert past is not None
    assert past.group == pattern
    assert told(open_table(), clock) == {"1:clicks:0": [(0, 56, 10)]}


def test_a_group_that_the_table_does_not_have_has_no_past(open_table: Open, uri: str) -> None:
    assert open_table().past(GROUP) is None
    assert open_table().groups() == []
    for name in ("views_etl", "it's_another", "views_etl"):
        open_table().open_run(GroupKey(name, ["clicks"]), 1, force=True).record(at({FIRST: 28}))
    assert open_table().past(GROUP) is None
    assert open_table().groups() == ["it's_another", "views_etl"]
    DeltaTable(uri).delete()
    assert open_table().groups() == []
    assert open_table().past("views_etl") is None


# From rows


def state(step: int, offsets: dict[str, int]) -> list[Row]:
    stamp = Stamp(1, 1, step, datetime(2026, 11, 23, tzinfo=UTC) + timedelta(seconds=step), "1")
    named = {"first": FIRST, "second": SECOND}
    return position_rows(KEY, [PartitionProgress(named[name], offset) for name, offset in offsets.items()], stamp)


def test_no_more_states_are_read_than_needed() -> None:
    read = []

    def states(found: dict[str, int]) -> list[Row]:
        read.append(found)
        return state(100 - len(read), found)

    assert past_of((states({"first": 28}) for _ in range(50)), 4) is not None
    assert len(read) == 4
    read.clear()
    # A partition that came lately is not looked for in all of the past.
    assert past_of((states({"first": 28} | ({"second": 28} if not n else {})) for n in range(50)), 4) is not None
    assert len(read) == 12
