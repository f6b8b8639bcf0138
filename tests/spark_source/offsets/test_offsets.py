"""The offsets' canonical text: one map, one text, small for many partitions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offset_spec import OffsetSpec
from spark_source.offsets.offsets import Offsets, PartitionRun, PartitionSet
from tests.spark_source.fakes import offset_maps, partition_keys
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, StoreKey


def key(text: str) -> PartitionKey:
    return PartitionKey.parse(text)


def test_text_is_by_store_and_by_run_of_partitions() -> None:
    offsets = Offsets.of(
        {
            **{key(f"1:flights:{n}"): 2800 for n in range(4)},
            key("1:flights:10000"): 560,
            **{key(f"1:flights:{n}"): 588 for n in (10001, 10002, 10003)},
        }
    )
    stores = '"1:flights:0": {"0-3": 2800}, "1:flights:1": {"10000": 560, "10001-10003": 588}'
    assert offsets.to_json() == f'{{{stores}, "version": 1}}'


@given(offset_maps)
def test_text_and_back(positions: dict[PartitionKey, int]) -> None:
    offsets = Offsets.of(positions)
    assert offsets.as_dict() == positions
    assert Offsets.parse(offsets.to_json()) == offsets
    assert Offsets.from_dict(json.loads(json.dumps(offsets.to_dict()))) == offsets


def test_texts_that_no_planner_writes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the offset 'soon' of 1:t:0, partitions 1 is not a whole"):
        Offsets.of_stores({"1:t:0": {"1": "soon"}})
    with pytest.raises(ConfigurationError, match="the offsets name partition 1:t:1 twice"):
        Offsets.of_stores({"1:t:0": {"0-2": 28, "1": 28}})


@given(offset_maps)
def test_text_is_sorted_and_shortest(positions: dict[PartitionKey, int]) -> None:
    text = Offsets.of(positions).to_json()
    assert json.dumps(json.loads(text), sort_keys=True) == text
    split = {
        store: {
            str(n): at for run, at in runs.items() for n in range(int(run.split("-")[0]), int(run.split("-")[-1]) + 1)
        }
        for store, runs in json.loads(text).items()
        if store != "version"
    }
    assert Offsets.of_stores(split).to_json() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "JSON object of stores"),
        ("{", "not JSON"),
        ('{"1:t": {"0": 0}, "version": 1}', "not a store"),
        ('{"1:t:0": 28, "version": 1}', "JSON object of partition ids"),
        ('{"1:t:0": {"a": 28}, "version": 1}', "is not a run of partition ids"),
        ('{"1:t:0": {"3-1": 28}, "version": 1}', "is not a run of partition ids of store 1:t:0"),
        ('{"1:t:0": {"10000": 28}, "version": 1}', "whose ids are 0 to 9999"),
        ('{"1:t:0": {"0-3": 28, "2": 28}, "version": 1}', "1:t:2 twice"),
        ('{"1:t:0": {"0": 27}, "version": 1}', "multiple of 28"),
        ('{"1:t:0": {"0": "28"}, "version": 1}', "whole number"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Offsets.parse(text)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (
            "2",
            r"the offsets have version 2, written by a newer release of pyspark-tubeclient; "
            r"this one .* reads version 1: up",
        ),
        ("null", "the offsets have no version; this release"),
    ],
)
def test_other_versions_are_refused_by_name(version: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Offsets.parse(f'{{"1:t:0": {{"0": 28}}, "version": {version}}}')
    with pytest.raises(ConfigurationError, match=message.replace("the offsets", "the offsets in startingOffsets")):
        OffsetSpec.parse(f'{{"1:t:0": {{"0": 28}}, "version": {version}}}', "startingOffsets")


def test_checkpoint_text_as_starting_offsets() -> None:
    """startingOffsets accepts the offsets text of a checkpoint."""
    offsets = Offsets.of({key("1:t:0"): 28, key("1:t:1"): 28})
    assert OffsetSpec.parse(offsets.to_json(), "startingOffsets").named == ((key("1:t:0"), 28), (key("1:t:1"), 28))


@given(offset_maps)
def test_runs_of_any_length_are_joined(positions: dict[PartitionKey, int]) -> None:
    apart: dict[StoreKey, list[PartitionRun]] = {}
    for one, at in sorted(positions.items(), reverse=True):
        apart.setdefault(one.store, []).insert(0, PartitionRun(one.partition_id, one.partition_id, at))
    joined, other = Offsets.of_runs(apart), Offsets.of(positions)
    assert joined == other
    assert hash(joined) == hash(other)
    assert joined.to_json() == other.to_json()
    assert (list(joined), len(joined)) == (sorted(positions), len(positions))
    assert joined.as_dict() == positions
    assert joined == positions


@given(st.lists(partition_keys), st.lists(partition_keys))
def test_it_is_a_set_in_order(keys: list[PartitionKey], others: list[PartitionKey]) -> None:
    found = PartitionSet(keys)
    assert list(found) == sorted(set(keys))
    assert len(found) == len(set(keys))
    assert [one in found for one in others] == [one in keys for one in others]
    assert PartitionSet.of(found) is found
