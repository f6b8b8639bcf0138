"""The first answer to "where does the query start" outlives a crash of its first batch."""

from __future__ import annotations

from collections.abc import Callable

from deltalake import DeltaTable

from offsets_store import GroupKey, OffsetsTable
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tubeclient.keys import PartitionKey

Open = Callable[[], OffsetsTable]


def test_the_first_answer_is_found_by_the_next_run(open_table: Open, clock: Clock) -> None:
    open_table().open_run(KEY, 1).keep_initial("latest", {FIRST: 280, SECOND: 0})
    clock.now += 1
    run = open_table().open_run(KEY, 1, force=True)
    assert run.initial_offsets("latest") == {FIRST: 280, SECOND: 0}
    assert run.initial_offsets("earliest") is None
    assert open_table().latest(KEY) is None
    assert open_table().positions("clicks_etl", ["clicks"]) == {}


def test_start_without_partitions(open_table: Open) -> None:
    """The table stores and returns a start that names no partition."""
    run = open_table().open_run(KEY, 1)
    run.keep_initial("latest", {})
    assert open_table().open_run(KEY, 1, force=True).initial_offsets("latest") == {}


def test_an_answer_is_for_its_own_topics_alone(open_table: Open) -> None:
    """Beside positions of the group on other topics, and where those have an answer of their own."""
    other, view = GroupKey("clicks_etl", ["views"]), PartitionKey(1, "views", 0)
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    run.keep_initial("latest", {FIRST: 280})
    assert [open_table().keeps_start(key) for key in (KEY, other)] == [True, False]
    second = open_table().open_run(other, 1, force=True)
    assert second.initial_offsets("latest") is None
    second.keep_initial("latest", {view: 56})
    assert second.initial_offsets("latest") == {view: 56}
    second.clear_initial()
    second.record(at({view: 84}))
    assert [open_table().keeps_start(key) for key in (KEY, other)] == [True, False]
    assert open_table().open_run(KEY, 1, force=True).initial_offsets("latest") == {FIRST: 280}


def test_start_lasts_until_cleared(open_table: Open, uri: str) -> None:
    """The stored start survives later records until it is cleared."""
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    run.keep_initial("latest", {FIRST: 280})
    assert open_table().positions("clicks_etl", ["clicks"]) == {FIRST: 28}
    run = open_table().open_run(KEY, 1, force=True)
    run.record(at({FIRST: 56}))
    assert open_table().open_run(KEY, 1, force=True).initial_offsets("latest") == {FIRST: 280}
    before = DeltaTable(uri).version()
    run.clear_initial()
    assert run.record(at({FIRST: 84})) is True
    assert DeltaTable(uri).version() == before + 1
    assert open_table().open_run(KEY, 1, force=True).initial_offsets("latest") is None
    assert open_table().positions("clicks_etl", ["clicks"]) == {FIRST: 84}


def test_clearing_alone_is_a_commit(open_table: Open) -> None:
    """A record commits the clearing of the start even if no position has changed."""
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    run.keep_initial("latest", {FIRST: 28})
    run.clear_initial()
    assert run.record(at({FIRST: 28})) is True
    assert run.initial_offsets("latest") is None
    run.clear_initial()
    assert run.record(at({FIRST: 28})) is False
    run.keep_initial("latest", {FIRST: 28})
    run.record(at({FIRST: 56}))
    assert run.initial_offsets("latest") == {FIRST: 28}


def test_a_position_past_its_end_goes_back_with_it(open_table: Open, uri: str) -> None:
    """The topic was created again: what comes now is before the old position, and is to be read."""
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 280, SECOND: 280}))
    before = DeltaTable(uri).version()
    assert run.keep_initial("earliest", {FIRST: 28, SECOND: 0}, ends={FIRST: 56, SECOND: 280}) == [FIRST]
    assert DeltaTable(uri).version() == before + 1
    found = open_table().latest(KEY)
    assert found is not None
    assert (found.sequence, [one[:2] for one in found.partitions]) == (2, [(FIRST, 28), (SECOND, 280)])
    assert run.initial_offsets("earliest") == {FIRST: 28, SECOND: 0}


def test_positions_that_do_not_go_back(open_table: Open) -> None:
    """A position goes back only if the query begins before it and its end is known."""
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 280, SECOND: 280}))
    assert run.keep_initial("group", {FIRST: 280, SECOND: 0}, ends={FIRST: 28}) == []
    assert open_table().positions("clicks_etl", ["clicks"]) == {FIRST: 280, SECOND: 280}


def test_older_start_past_the_data(open_table: Open) -> None:
    """A new start replaces an older one past the data, which becomes no position."""
    run = open_table().open_run(KEY, 1)
    run.keep_initial("latest", {FIRST: 280})
    assert run.keep_initial("earliest", {FIRST: 28}, ends={FIRST: 56}) == []
    assert (open_table().latest(KEY), run.initial_offsets("latest")) == (None, None)
