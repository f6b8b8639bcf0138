"""Names of partitions, stores and ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, StoreBounds, TopicLayout, rows_behind


@pytest.mark.parametrize("text", ["1:clicks", "1:clicks:0:0", "1: :0", "1:clicks:-1", f"1:clicks:{'9' * 5_000}"])
def test_invalid_partition_keys(text: str) -> None:
    """A text that is not a partition key is a configuration error."""
    with pytest.raises(ConfigurationError, match="brokerId:topic:partitionId"):
        PartitionKey.parse(text)


@given(st.text(max_size=30) | st.text("0123456789: ab-\u0661\u00b2", max_size=30))
@FUZZ
def test_any_text_as_a_partition_key(text: str) -> None:
    """Any text is a partition key or a configuration error."""
    try:
        key = PartitionKey.parse(text)
    except ConfigurationError:
        return
    assert PartitionKey.parse(str(key)) == key


def test_a_layout_lists_its_partitions_in_order() -> None:
    layout = TopicLayout("clicks", 1, stores=3, partitions_per_store=2)
    assert [key.partition_id for key in layout.partitions()] == [0, 1, 10000, 10001, 20000, 20001]
    assert {(key.broker_id, key.topic) for key in layout.partitions()} == {(1, "clicks")}
    assert TopicLayout("clicks", 1, 0, 4).partitions() == []


def test_rows_behind() -> None:
    """`rows_behind` counts a store once and never returns less than zero."""
    a, b, c = PartitionKey(1, "x", 0), PartitionKey(1, "x", 1), PartitionKey(2, "x", 0)
    assert rows_behind({a: 280, b: 280, c: 28}, {a: 0, b: 140, c: 56}) == 10
    assert rows_behind({a: 280}, {}) == 10


def test_a_position_counts_within_its_store() -> None:
    bounds = StoreBounds(56, 280)
    assert [bounds.rows_behind(at) for at in (None, 0, 56, 84, 280, 308)] == [8, 8, 8, 7, 0, 0]


@given(st.integers(0, 50), st.integers(0, 50), st.none() | st.integers(0, 120))
@FUZZ
def test_of_one_partition_both_count_the_same(first: int, count: int, at: int | None) -> None:
    key, bounds = PartitionKey(1, "x", 0), StoreBounds(28 * first, 28 * (first + count))
    position = None if at is None else 28 * at
    counted = rows_behind({key: bounds.max_offset}, {key: bounds.nearest(position or 0)})
    assert bounds.rows_behind(position) == counted
