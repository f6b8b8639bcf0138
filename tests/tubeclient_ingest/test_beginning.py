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
from tubeclient_ingest.commits.beginning import of_topics, start_text, starting_offsets

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
V = PartitionKey(1, "views", 0)


@pytest.mark.parametrize("fallback", ["latest", '{"1:views:0": 84, "1:clicks:0": 0, "default": "latest"}'])
def test_a_new_topic_starts_by_the_fallback(fallback: str) -> None:
    spec = OffsetSpec.parse(
        starting_offsets(Offsets.of({A: 280}), Offsets.of({A: 280}), ("clicks", "views"), fallback), "startingOffsets"
    )
    assert spec.default == "latest"
    expected = {A: 280} if fallback == "latest" else {A: 280, V: 84}
    assert dict(spec.named) == expected


def test_offsets_of_a_known_topic_are_not_named_twice() -> None:
    """The group's rows say where a known topic goes on, whatever the fallback has for its partitions."""
    stored, second = Offsets.of({A: 280, PartitionKey(1, "clicks", 1): 280}), PartitionKey(1, "clicks", 1)
    fallback = '{"1:clicks:0": 0, "1:clicks:1": 28, "1:views:0": 84}'
    spec = OffsetSpec.parse(starting_offsets(stored, stored, ("clicks", "views"), fallback), "startingOffsets")
    assert dict(spec.named) == {A: 280, second: 280, V: 84}
    only_second = Offsets.of({second: 280})
    spec = OffsetSpec.parse(starting_offsets(stored, only_second, ("clicks",), "latest"), "startingOffsets")
    assert dict(spec.named) == {A: "earliest", second: 280}


def test_unread_topics_do_not_set_the_start() -> None:
    """Only the offsets of topics that a run reads decide where it begins."""
    assert of_topics(Offsets.of({A: 280, B: 28, V: 28}), ["clicks"]) == Offsets.of({A: 280, B: 28})


def test_a_time_is_for_a_first_run() -> None:
    time = "2026-11-21T10:31Z"
    assert starting_offsets(Offsets({}), Offsets({}), ("clicks",), time) == time
    assert (
        json.loads(starting_offsets(Offsets.of({A: 280}), Offsets.of({A: 280}), ("clicks",), time))["default"]
        == "earliest"
    )
    with pytest.raises(
        ConfigurationError, match=r"is the time 2026-11-21T10:31Z, which is for a first run only; .* in views"
    ):
        starting_offsets(Offsets.of({A: 280}), Offsets.of({A: 280}), ("clicks", "views"), time)


def test_new_partition_of_a_known_topic() -> None:
    """Whatever a new topic beside it begins at: what it holds came after the group's rows."""
    spec = OffsetSpec.parse(
        starting_offsets(Offsets.of({A: 280}), Offsets.of({A: 280}), ("clicks", "views"), "latest"), "startingOffsets"
    )
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
    spec = OffsetSpec.parse(
        starting_offsets(Offsets.of(known), Offsets.of(known), ("a", "b"), "earliest"), "startingOffsets"
    )
    assert dict(spec.named) == known


AHEAD = (
    ": the group was read elsewhere, or was moved forward, or the target was restored or recreated. This target "
    "still gets those messages; to skip them, run once with reset-offsets for these topics and starting-offsets group"
)


@pytest.mark.parametrize(
    ("in_sink", "in_table", "chosen", "text"),
    [
        ({}, {}, None, "at earliest in clicks, views"),
        ({}, {A: 28}, "latest", "at latest in clicks, views"),
        (
            {A: 280, B: 56, V: 28},
            {A: 280},
            None,
            "where the group's rows in the target end, in 3 partitions of clicks, views",
        ),
        (
            {A: 280},
            {A: 560, V: 28},
            None,
            "where the group's rows in the target end, in 1 partition of clicks; at earliest in views. The offsets"
            f" table is ahead of the target in 2 partitions of clicks, views{AHEAD}",
        ),
        (
            {A: 280, B: 280},
            {A: 560, B: 252, V: 28},
            "group",
            "where the group's rows in the target end, in 2 partitions of clicks; at group in views. The offsets table"
            f" is ahead of the target in 1 partition of clicks{AHEAD}",
        ),
    ],
)
def test_it_is_said_where_a_run_begins(
    in_sink: dict[PartitionKey, int], in_table: dict[PartitionKey, int], chosen: str | None, text: str
) -> None:
    known, kept = Offsets.of(in_sink), Offsets.of(in_table)
    assert start_text(known, kept, ("clicks", "views"), chosen) == f"begins {text}"


def test_absent_broker_resumes_at_the_tables_end() -> None:
    """The start that ingest makes of its target, in the planner: nothing of that broker begins anew later."""
    cluster = FakeCluster(partitions=1)
    in_sink = Offsets({PartitionKey(1, "t", 0): 4 * 28, PartitionKey(2, "t", 0): 5 * 28})
    starting = starting_offsets(in_sink, in_sink, ("t",), "earliest")
    one = planner(cluster, startingOffsets=starting, failOnDataLoss="false")
    start = Offsets.from_dict(one.initial())
    end = Offsets.from_dict(one.latest(start.to_dict(), None))
    assert start == in_sink
    assert end == in_sink.merge({PartitionKey(1, "t", 0): 10 * 28})
