"""One rule for where a read begins: a stream and a batch read of the same options begin at the same offsets."""

from __future__ import annotations

import pytest

from spark_source.offsets.offsets import Offsets
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.batch_reader import plan_batch
from tests.spark_source.fakes import ROW, FakeCluster, key, options, planner
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

MINUTE = 60_000


def cluster() -> FakeCluster:
    """Two stores of two partitions, each with rows 2 to 9; the group stands in one partition."""
    made = FakeCluster(stores=2, partitions=2, rows=(2, 10))
    made.positions = {key("1:t:1"): 5 * ROW}
    return made


def of_a_batch(**more: object) -> dict[PartitionKey, int]:
    chosen = options(**more)
    tasks = plan_batch(chosen, cluster(), ProgressTable(chosen))
    return {one.partition: one.start for task in tasks for one in task.ranges}


def of_a_stream(**more: object) -> Offsets:
    return Offsets.from_dict(planner(cluster(), None, **more).initial())


@pytest.mark.parametrize(
    ("more", "rows"),
    [
        ({"startingOffsets": "earliest"}, (2, 2, 2, 2)),
        ({"startingOffsets": f'{{"1:t:1": {4 * ROW}, "default": -2}}'}, (2, 4, 2, 2)),
        ({"startingOffsets": "group"}, (2, 5, 2, 2)),
        ({"startingOffsets": '{"1:t:1": "group", "default": "earliest"}'}, (2, 5, 2, 2)),
        ({"startingTimestamp": 7 * MINUTE}, (7, 7, 7, 7)),
        ({"startingTimestamp": 0}, (2, 2, 2, 2)),
        ({"startingOffsets": f'{{"1:t:9": {4 * ROW}, "default": -2}}', "failOnDataLoss": False}, (2, 2, 2, 2)),
    ],
)
def test_a_stream_and_a_batch_read_begin_at_the_same_offsets(more: dict[str, object], rows: tuple[int, ...]) -> None:
    keys = [key(f"1:t:{number}") for number in (0, 1, 10_000, 10_001)]
    expected = {one: at * ROW for one, at in zip(keys, rows, strict=True)}
    assert of_a_stream(**more).as_dict() == expected
    assert of_a_batch(**more) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": f'{{"1:t:9": {4 * ROW}, "default": -2}}'}, "startingOffsets names 1:t:9, which"),
        (
            {"startingOffsets": f'{{"1:t:0": {4 * ROW}}}'},
            "no entry for 1:t:1, 1:t:10000, 1:t:10001",
        ),
    ],
)
def test_what_is_no_beginning_is_none_for_either(more: dict[str, object], message: str) -> None:
    for read in (of_a_stream, of_a_batch):
        with pytest.raises(ConfigurationError, match=message):
            read(**more)
