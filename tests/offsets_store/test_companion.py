"""A companion writes beside a run, in the run's name: whoever knows of the later batch counts, back or forward, and the
run goes on as if it had written itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError, PartitionProgress, SupersededRun
from offsets_store.run import OffsetsRun
from offsets_store.writers import Companion
from tests.offsets_store.between import Between
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tests.offsets_store.memory import Log, MemoryStorage
from tubeclient.keys import PartitionKey

VIEWS = PartitionKey(1, "views", 0)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def open_table(log: Log, clock: Clock) -> Callable[[], OffsetsTable]:
    return lambda: in_memory(log, clock)


def in_memory(log: Log, clock: Clock, storage: Between | None = None) -> OffsetsTable:
    storage = storage or Between(MemoryStorage(log))
    return OffsetsTable("memory", clock_ms=clock, client_version="9.9", storage=storage)


def positions(log: Log) -> dict[PartitionKey, int]:
    return {row.partition: row.next_offset for row in log.rows if row.kind == "position"}


def test_at_one_time_it_moves_forward_and_never_back_and_leaves_the_rest(table: OffsetsTable, log: Log) -> None:
    run, companion = table.open_run(KEY, 2), table.join_run(KEY, 2)
    run.record([PartitionProgress(FIRST, 280, 560, 0), PartitionProgress(SECOND, 280, 560, 1)])
    assert companion.record(at({FIRST: 252, SECOND: 280})) is False
    assert companion.record([PartitionProgress(FIRST, 308, 700), PartitionProgress(SECOND, 0)]) is True
    found = table.latest(KEY)
    assert found is not None
    assert found.partitions == (PartitionProgress(FIRST, 308, 700, 0), PartitionProgress(SECOND, 280, 560, 1))
    assert (found.run_epoch, found.sequence, found.client_version) == (run.epoch, 2, "9.9+companion")
    assert companion.record([PartitionProgress(PartitionKey(2, "clicks", 0), 28)]) is True
    assert positions(log) == {FIRST: 308, SECOND: 280, PartitionKey(2, "clicks", 0): 28}


def test_where_it_was_faster_the_run_adds_who_read_the_batch_and_why(table: OffsetsTable, log: Log) -> None:
    run, companion = table.open_run(KEY, 2), table.join_run(KEY, 2)
    for step in range(1, 4):
        known = [PartitionProgress(FIRST, 28 * step, 560, step % 2, 28 * (step - 1), (), "modulo")]
        companion.record([PartitionProgress(FIRST, 28 * step, 560)])
        assert run.record(known) is True
        found = table.latest(KEY)
        assert found is not None
        assert (list(found.partitions), found.client_version) == (known, "9.9")
        assert companion.record([PartitionProgress(FIRST, 28 * step, 560)]) is False
        assert run.record(known) is False


def test_the_run_is_not_superseded_and_writes_what_is_news(table: OffsetsTable, log: Log) -> None:
    run, companion = table.open_run(KEY, 2), table.join_run(KEY, 2)
    for step in range(1, 30):
        companion.record(at({FIRST: 28 * step, SECOND: 28}))
        assert run.record(at({FIRST: 28 * step, SECOND: 28})) is False
    assert run.record(at({FIRST: 2800, SECOND: 28})) is True
    assert {row.client_version for row in log.rows} == {"9.9"}
    for step in range(101, 130):  # SECOND's row stays the run's own, of long ago
        companion.record(at({FIRST: 28 * step, SECOND: 28}))
    assert run.record(at({FIRST: 28 * 130, SECOND: 28})) is True


def broken() -> None:
    raise OffsetsTableError("disk full")


def test_it_may_write_before_the_run_does(table: OffsetsTable, log: Log, clock: Clock) -> None:
    run = table.open_run(KEY, 1)
    clock.now += 60_000
    assert table.join_run(KEY, 1).record(at({FIRST: 28})) is True
    assert [row.run_epoch for row in log.rows] == [0]
    assert run.record(at({FIRST: 28})) is False
    assert run.record(at({FIRST: 56})) is True
    assert [row.run_epoch for row in log.rows] == [run.epoch]


def test_an_older_run_is_superseded_though_the_newest_rows_are_the_companions(
    table: OffsetsTable, clock: Clock
) -> None:
    old = table.open_run(KEY, 1)
    old.record(at({FIRST: 28}))
    clock.now += 1
    table.open_run(KEY, 1, force=True).record(at({FIRST: 56}))
    table.join_run(KEY, 1).record(at({FIRST: 84}))
    with pytest.raises(SupersededRun):
        old.record(at({FIRST: 112}))


def test_a_kept_first_answer_goes_when_the_first_batch_is_complete(table: OffsetsTable, log: Log) -> None:
    run, companion = table.open_run(KEY, 1), table.join_run(KEY, 1)
    run.keep_initial("latest", {FIRST: 280, SECOND: 280})
    # Of a batch before that beginning.
    companion.record(at({FIRST: 280, SECOND: 252}))
    assert run.initial_offsets("latest") == {FIRST: 280, SECOND: 280}
    companion.record(at({FIRST: 280, SECOND: 308}))
    assert run.initial_offsets("latest") is None
    assert run.record(at({FIRST: 308, SECOND: 308})) is True


def test_an_older_run_stays_superseded_when_the_kept_first_answer_goes(table: OffsetsTable, clock: Clock) -> None:
    old = table.open_run(KEY, 1)
    old.record(at({FIRST: 28}))
    clock.now += 1
    new = table.open_run(KEY, 1, force=True)
    new.keep_initial("latest", {FIRST: 28})
    table.join_run(KEY, 1).record(at({FIRST: 28}))
    assert new.initial_offsets("latest") is None
    with pytest.raises(SupersededRun):
        old.record(at({FIRST: 56}))
    assert new.record(at({FIRST: 56})) is True


def test_unmoved_rows_do_not_look_newer_than_they_are(table: OffsetsTable) -> None:
    """Where a group changed its topics, its newest record of a partition counts, under whatever topic set."""
    both = GroupKey("clicks_etl", ["clicks", "views"])
    table.open_run(both, 1, force=True).record(at({FIRST: 280, VIEWS: 28}))
    table.open_run(KEY, 1, force=True).record(at({FIRST: 56}))
    table.join_run(both, 1).record(at({FIRST: 280, VIEWS: 56}))
    assert table.positions("clicks_etl", ["clicks", "views"]) == {FIRST: 56, VIEWS: 56}


def moment(clock_ms: int) -> datetime:
    return datetime.fromtimestamp(clock_ms / 1000, UTC)


def test_what_is_known_later_counts_and_may_be_behind(table: OffsetsTable, log: Log, clock: Clock) -> None:
    run, companion = table.open_run(KEY, 1), table.join_run(KEY, 1)
    run.record(at({FIRST: 2800, SECOND: 28}), moment(clock.now + 1))
    assert companion.record(at({FIRST: 224, SECOND: 28}), moment(clock.now + 4)) is True
    assert positions(log) == {FIRST: 224, SECOND: 28}
    # What either of the two heard of before that is no news, wherever it was.
    assert companion.record(at({FIRST: 2800, SECOND: 28}), moment(clock.now + 2)) is False
    run.record(at({FIRST: 2800, SECOND: 28}), moment(clock.now + 3))
    assert positions(log) == {FIRST: 224, SECOND: 28}
    assert run.record(at({FIRST: 56, SECOND: 28}), moment(clock.now + 5)) is True
    assert companion.record(at({FIRST: 224, SECOND: 28}), moment(clock.now + 4)) is False
    assert positions(log) == {FIRST: 56, SECOND: 28}


class World:
    """A query, the planner and the listener that hear of its batches sooner or later, and the table they both write."""

    def __init__(self) -> None:
        self.clock, self.log = Clock(), Log()
        self.ends: list[dict[PartitionKey, int]] = [{FIRST: 0, SECOND: 0}]
        """Of the complete batches."""
        self.times: list[int] = [self.clock.now]
        """When each was complete."""
        self.companion_storage = Between(MemoryStorage(self.log))
        self.companion: Companion = in_memory(self.log, self.clock, self.companion_storage).join_run(KEY, 1)
        self.last: dict[PartitionKey, int] = {}
        self.old: OffsetsRun | None = None
        self.start()

    def start(self) -> None:
        self.storage = Between(MemoryStorage(self.log))
        self.run: OffsetsRun = in_memory(self.log, self.clock, self.storage).open_run(KEY, 1, force=True)
        self.planned = len(self.ends) - 1  # the checkpoint's last
        self.wrote = self.settled = False

    def batch(self, entries: int) -> None:
        last = self.ends[-1]
        self.complete({FIRST: last[FIRST] + 28 * entries, SECOND: last[SECOND] + 28 * (entries // 2)})

    def complete(self, end: dict[PartitionKey, int]) -> None:
        self.clock.now += 2
        self.ends.append(end)
        self.times.append(self.clock.now)

    def lose_a_tail(self, entries: int) -> None:
        """The planner goes back when it plans the next batch, and tells the table at once."""
        held = {key: max(0, end - 28 * entries) for key, end in self.ends[-1].items()}
        self.clock.now += 2
        back = [PartitionProgress(key, offset, start_offset=self.ends[-1][key]) for key, offset in held.items()]
        self.wrote |= self.run.record(back, moment(self.clock.now))
        self.last = {}
        self.complete(held)
        self.planned = len(self.ends) - 1
        self.check()

    def plan(self, late: int = 0) -> None:
        self.planned = max(self.planned, len(self.ends) - 1 - late)
        # Asked for the next batch, and before that is complete, the planner hears of the one before.
        if self.run.record(at(self.ends[self.planned]), moment(self.times[self.planned] + 1)):
            self.wrote = True
        self.check()

    def hear(self, late: int = 0) -> None:
        number = max(0, len(self.ends) - 1 - late)
        self.companion.record(at(self.ends[number]), moment(self.times[number]))
        self.check()

    def check(self) -> None:
        now = positions(self.log)
        assert all(offset <= self.ends[-1][key] for key, offset in now.items()), "the table leads the sink"
        if self.settled:
            assert all(now[key] >= offset for key, offset in self.last.items()), "the table went back within a run"
        self.last = now
        self.settled = {row.run_epoch for row in self.log.rows} == {self.run.epoch}

    def plan_in_vain(self, late: int) -> None:
        self.storage.act = broken
        with contextlib.suppress(OffsetsTableError):
            self.plan(late)
        self.storage.act = None

    def plan_and_lose_the_answer(self, late: int) -> None:
        self.storage.after = broken
        with contextlib.suppress(OffsetsTableError):
            self.plan(late)
        self.storage.after = None
        self.check()

    def plan_with_a_listener_in_between(self, late: int) -> None:
        self.storage.act = self.hear
        self.plan(late)
        self.storage.act = None

    def hear_with_a_planner_in_between(self, late: int) -> None:
        self.companion_storage.act = self.plan
        self.hear(late)
        self.companion_storage.act = None

    def restart(self, _: int) -> None:
        self.clock.now += 2
        self.old = self.run
        self.start()

    def old_one_wakes_up(self, _: int) -> None:
        if self.old is not None and self.wrote:
            with pytest.raises(SupersededRun):
                self.old.record(at(self.ends[0]))


_steps = [
    World.batch,
    World.lose_a_tail,
    World.plan,
    World.hear,
    World.plan_in_vain,
    World.plan_and_lose_the_answer,
    World.plan_with_a_listener_in_between,
    World.hear_with_a_planner_in_between,
    World.restart,
    World.old_one_wakes_up,
]


@settings(max_examples=1000)
@given(st.lists(st.tuples(st.sampled_from(_steps), st.integers(0, 3)), max_size=40))
def test_planner_and_listener_in_any_order(steps: list[tuple[Callable[[World, int], None], int]]) -> None:
    world = World()
    for step, number in steps:
        step(world, number)
    world.hear()
    assert positions(world.log) == world.ends[-1]
    world.plan()
    assert positions(world.log) == world.ends[-1]
