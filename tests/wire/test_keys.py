"""Names of partitions, stores and ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, TopicLayout, rows_behind


@pytest.mark.parametrize("text", ["1:clicks", "1:clicks:0:0", "1: :0", "1:clicks:-1", f"1:clicks:{'9' * 5_000}"])
def test_what_is_no_partition_key_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="brokerId:topic:partitionId"):
        PartitionKey.parse(text)


@given(st.text(max_size=30) | st.text("0123456789: ab-\u0661\u00b2", max_size=30))
@FUZZ
def test_any_text_is_a_partition_key_or_a_configuration_error(text: str) -> None:
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


def test_rows_behind_counts_a_store_once_and_never_below_zero() -> None:
    a, b, c = PartitionKey(1, "x", 0), PartitionKey(1, "x", 1), PartitionKey(2, "x", 0)
    assert rows_behind({a: 280, b: 280, c: 28}, {a: 0, b: 140, c: 56}) == 10
    assert rows_behind({a: 280}, {}) == 10
