"""Where a new checkpoint starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offset_spec import OffsetSpec
from spark_source.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_cli.resume import known_positions, start_text, starting_offsets

A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
V = PartitionKey(1, "views", 0)


def test_the_sink_counts_and_the_offsets_table_for_topics_of_which_it_has_nothing() -> None:
    both = ("clicks", "views")
    assert known_positions({A: 280}, {A: 560, B: 84, V: 28}, both, explicit=False) == {A: 280, V: 28}
    assert known_positions({}, {A: 560, V: 28}, ("clicks",), explicit=False) == {A: 560}
    assert known_positions({}, {}, both, explicit=False) == {}


def test_where_the_user_says_to_start_prevails_over_the_offsets_table() -> None:
    assert known_positions({A: 280}, {A: 560, V: 28}, ("clicks", "views"), explicit=True) == {A: 280}
    assert known_positions({}, {A: 560}, ("clicks",), explicit=True) == {}


def test_topics_that_are_no_longer_read_are_not_known() -> None:
    """The source refuses partitions that the subscribed topics do not have."""
    assert known_positions({A: 280, V: 28}, {}, ("clicks",), explicit=False) == {A: 280}


def test_a_group_that_nobody_knows_starts_where_the_user_says() -> None:
    assert starting_offsets(Offsets({}), ("clicks",), "latest") == "latest"


def test_known_topics_go_on_and_their_new_partitions_are_read_from_the_beginning() -> None:
    spec = OffsetSpec.parse(starting_offsets(Offsets.of({A: 280, B: 56}), ("clicks",), "latest"), "startingOffsets")
    assert dict(spec.named) == {A: 280, B: 56}
    assert spec.default == "earliest"


@pytest.mark.parametrize("fallback", ["latest", '{"1:views:0": 84, "1:clicks:0": 0, "default": "latest"}'])
def test_a_new_topic_starts_by_the_fallback(fallback: str) -> None:
    spec = OffsetSpec.parse(starting_offsets(Offsets.of({A: 280}), ("clicks", "views"), fallback), "startingOffsets")
    assert spec.default == "latest"
    expected = {A: 280} if fallback == "latest" else {A: 280, V: 84}
    assert dict(spec.named) == expected


_offsets = st.dictionaries(
    st.builds(PartitionKey, st.integers(1, 3), st.sampled_from(["a", "b"]), st.sampled_from([0, 1, 2, 10_000])),
    st.integers(0, 1_000).map(lambda n: n * 28),
    min_size=1,
)


@given(_offsets)
def test_the_source_reads_back_what_is_known(known: dict[PartitionKey, int]) -> None:
    spec = OffsetSpec.parse(starting_offsets(Offsets.of(known), ("a", "b"), "earliest"), "startingOffsets")
    assert dict(spec.named) == known


@pytest.mark.parametrize(
    ("in_sink", "in_table", "chosen", "text"),
    [
        ({}, {}, None, "at earliest in clicks, views (as nothing is known of the group there)"),
        ({}, {}, "latest", "at latest in clicks, views (startingOffsets)"),
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
            "group, in 1 partition of views",
        ),
        (
            {A: 280},
            {A: 560, V: 28},
            "latest",
            "where the group's rows in the target end, in 1 partition of clicks; at latest in views (startingOffsets)",
        ),
    ],
)
def test_it_is_said_where_a_new_checkpoint_begins(
    in_sink: dict[PartitionKey, int], in_table: dict[PartitionKey, int], chosen: str | None, text: str
) -> None:
    topics, explicit = ("clicks", "views"), chosen is not None
    known = known_positions(in_sink, in_table, topics, explicit)
    said = start_text(known, in_sink, topics, chosen or "earliest", explicit)
    assert said == f"the checkpoint is new and begins {text}"
