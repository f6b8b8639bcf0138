"""Where a run begins."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offset_spec import OffsetSpec, resolve
from spark_source.offsets.offsets import Offsets
from tests.spark_source.fakes import FakeCluster, planner
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, StoreBounds
from tubeclient_ingest.beginning import known_positions, start_text, starting_offsets

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
V = PartitionKey(1, "views", 0)


def test_the_sink_counts_and_the_offsets_table_for_topics_of_which_it_has_nothing() -> None:
    both = ("clicks", "views")
    assert known_positions({A: 280}, {A: 560, B: 84, V: 28}, both, None) == {A: 280, V: 28}
    assert known_positions({}, {A: 560, V: 28}, ("clicks",), None) == {A: 560}
    assert known_positions({}, {}, both, None) == {}


def test_where_the_user_says_to_start_prevails_over_the_offsets_table() -> None:
    assert known_positions({A: 280}, {A: 560, V: 28}, ("clicks", "views"), "latest") == {A: 280}
    assert known_positions({}, {A: 560}, ("clicks",), "earliest") == {}
    assert known_positions({}, {A: 560}, ("clicks",), "2026-11-21T10:31Z") == {}


def test_with_group_the_later_of_the_two_counts_in_each_partition() -> None:
    both = ("clicks", "views")
    assert known_positions({A: 280, B: 560}, {A: 560, B: 280, V: 28}, both, "group") == {A: 560, B: 560, V: 28}
    assert known_positions({A: 280}, {B: 84}, both, "group") == {A: 280, B: 84}
    assert known_positions({A: 280, V: 28}, {A: 308, V: 56}, ("views",), "group") == {V: 56}


@pytest.mark.parametrize("fallback", ["latest", '{"1:views:0": 84, "1:clicks:0": 0, "default": "latest"}'])
def test_a_new_topic_starts_by_the_fallback(fallback: str) -> None:
    spec = OffsetSpec.parse(starting_offsets(Offsets.of({A: 280}), ("clicks", "views"), fallback), "startingOffsets")
    assert spec.default == "latest"
    expected = {A: 280} if fallback == "latest" else {A: 280, V: 84}
    assert dict(spec.named) == expected


def test_a_time_is_for_a_first_run() -> None:
    time = "2026-11-21T10:31Z"
    assert starting_offsets(Offsets({}), ("clicks",), time) == time
    assert json.loads(starting_offsets(Offsets.of({A: 280}), ("clicks",), time))["default"] == "earliest"
    with pytest.raises(
        ConfigurationError, match=r"is the time 2026-11-21T10:31Z, which is for a first run; .* in views"
    ):
        starting_offsets(Offsets.of({A: 280}), ("clicks", "views"), time)


def test_a_new_partition_of_a_topic_that_was_read_is_read_from_its_beginning() -> None:
    """Whatever a new topic beside it begins at: what it holds came after the group's rows."""
    spec = OffsetSpec.parse(starting_offsets(Offsets.of({A: 280}), ("clicks", "views"), "latest"), "startingOffsets")
    bounds = {key.store: StoreBounds(28, 560) for key in (A, B, V)}
    begin = resolve(spec.with_new_from_earliest([A, B, V]), [A, B, V], bounds, dict)
    assert begin == {A: 280, B: 28, V: 560}


_offsets = st.dictionaries(
    st.builds(PartitionKey, st.integers(1, 3), st.sampled_from(["a", "b"]), st.sampled_from([0, 1, 2, 10_000])),
    st.integers(0, 1_000).map(lambda n: n * 28),
    min_size=1,
)


@given(_offsets)
def test_the_source_reads_back_what_is_known(known: dict[PartitionKey, int]) -> None:
    spec = OffsetSpec.parse(starting_offsets(Offsets.of(known), ("a", "b"), "earliest"), "startingOffsets")
    assert dict(spec.named) == known


@given(_offsets, _offsets, st.sampled_from([None, "latest", "target", "group"]))
def test_whatever_is_said_nothing_that_the_sink_has_is_read_again(
    in_sink: dict[PartitionKey, int], in_table: dict[PartitionKey, int], starting: str | None
) -> None:
    known = known_positions(in_sink, in_table, ("a", "b"), starting)
    assert all(known[partition] >= at for partition, at in in_sink.items())
    if starting != "group":
        assert all(known[partition] == at for partition, at in in_sink.items())


AHEAD = (
    ". The offsets table is ahead of the target in 1 partition of clicks: the group was read elsewhere, or was moved"
    " forward, or the target was restored. This target still gets those messages; to leave them out, start with"
    " starting-offsets group"
)


@pytest.mark.parametrize(
    ("in_sink", "in_table", "chosen", "text"),
    [
        ({}, {}, None, "at earliest in clicks, views"),
        ({}, {}, "latest", "at latest in clicks, views"),
        (
            {A: 280, B: 56, V: 28},
            {},
            None,
            "where the group's rows in the target end, in 3 partitions of clicks, views",
        ),
        (
            {A: 280},
            {A: 560, V: 28},
            None,
            "where the group's rows in the target end, in 1 partition of clicks; where the offsets table has the "
            f"group, in 1 partition of views{AHEAD}",
        ),
        (
            {A: 280, B: 280},
            {A: 560, B: 252},
            "group",
            "where the group's rows in the target end, in 1 partition of clicks; where the offsets table has the group,"
            " in 1 partition of clicks; at group in views",
        ),
    ],
)
def test_it_is_said_where_a_run_begins(
    in_sink: dict[PartitionKey, int], in_table: dict[PartitionKey, int], chosen: str | None, text: str
) -> None:
    topics = ("clicks", "views")
    known = known_positions(in_sink, in_table, topics, chosen)
    assert start_text(known, in_sink, in_table, topics, chosen) == f"begins {text}"


def test_a_broker_that_is_away_is_gone_on_with_where_the_table_ends() -> None:
    """The start that ingest makes of its target, in the planner: nothing of that broker begins anew later."""
    cluster = FakeCluster(partitions=1)
    in_sink = Offsets({PartitionKey(1, "t", 0): 4 * 28, PartitionKey(2, "t", 0): 5 * 28})
    starting = starting_offsets(known_positions(in_sink, {}, ["t"], None), ("t",), "earliest")
    one = planner(cluster, startingOffsets=starting, failOnDataLoss="false")
    start = Offsets.from_dict(one.initial())
    end = Offsets.from_dict(one.latest(start.to_dict(), None))
    assert start == in_sink
    assert end == in_sink.merge({PartitionKey(1, "t", 0): 10 * 28})
