"""Partitions that have no offset yet stay in the table until they have one, whoever writes."""

from __future__ import annotations

from collections.abc import Callable

from deltalake import DeltaTable

from offsets_store import GroupKey, OffsetsTable
from tests.offsets_store.conftest import FIRST, KEY, SECOND, at

Open = Callable[[], OffsetsTable]

TOPICS = ["clicks"]


def test_they_are_recorded_beside_the_positions_and_are_none(open_table: Open, uri: str) -> None:
    run = open_table().open_run(KEY, 1)
    assert run.record(at({FIRST: 28}), waiting={SECOND: "latest"}) is True
    assert open_table().positions("clicks_etl", TOPICS) == {FIRST: 28}
    assert open_table().waiting("clicks_etl", TOPICS) == {SECOND: "latest"}
    assert open_table().waiting("clicks_etl", ["views"]) == {}
    version = DeltaTable(uri).version()
    assert run.record(at({FIRST: 28}), waiting={SECOND: "latest"}) is False
    assert DeltaTable(uri).version() == version
    assert run.record(at({FIRST: 28}), waiting={SECOND: "group"}) is True
    assert open_table().waiting("clicks_etl", TOPICS) == {SECOND: "group"}
    assert run.record(at({FIRST: 28}), waiting={}) is True
    assert open_table().waiting("clicks_etl", TOPICS) == {}


def test_they_outlive_a_new_first_answer(open_table: Open) -> None:
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}), waiting={SECOND: "latest"})
    run.keep_initial("earliest", {FIRST: 0})
    assert open_table().waiting("clicks_etl", TOPICS) == {SECOND: "latest"}
    assert run.initial_waiting("earliest") == {}


def test_a_writer_that_knows_nothing_of_them_keeps_them_until_they_have_a_position(open_table: Open) -> None:
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}), waiting={SECOND: "latest"})
    assert run.record(at({FIRST: 56})) is True
    assert open_table().waiting("clicks_etl", TOPICS) == {SECOND: "latest"}
    assert run.record(at({FIRST: 56, SECOND: 280})) is True
    assert open_table().waiting("clicks_etl", TOPICS) == {}
    assert open_table().positions("clicks_etl", TOPICS) == {FIRST: 56, SECOND: 280}


def test_a_position_under_another_topic_set_counts_more(open_table: Open) -> None:
    table = open_table()
    table.open_run(KEY, 1).record(at({FIRST: 28}), waiting={SECOND: "latest"})
    both = GroupKey("clicks_etl", ["clicks", "views"])
    table.open_run(both, 1, force=True).record(at({FIRST: 56, SECOND: 84}))
    assert table.waiting("clicks_etl", TOPICS) == {}
    assert table.positions("clicks_etl", TOPICS) == {FIRST: 56, SECOND: 84}
