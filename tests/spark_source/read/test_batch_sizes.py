"""Batches of a good size: the same rows, nothing held longer than needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.read import task_read
from spark_source.read.task_read import gathered, regroup
from tubeclient.keys import PartitionKey
from tubeclient.range_reader import Pack
from tubeclient.wire.messages import Columns

KEY = PartitionKey(7, "clicks", 10_003)


def batches(sizes: list[int]) -> list[pa.RecordBatch]:
    numbers = iter(range(sum(sizes)))
    return [pa.record_batch({"n": pa.array([next(numbers) for _ in range(size)], pa.int64())}) for size in sizes]


@pytest.mark.parametrize(("max_rows", "max_bytes"), [(50, 10_000), (10_000, 50 * 8)])
@given(sizes=st.lists(st.integers(0, 90), max_size=20))
def test_regrouped_batches(max_rows: int, max_bytes: int, sizes: list[int]) -> None:
    """Regrouped batches have the same rows in order and a good size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_read, "MIN_BATCH_ROWS", 10)
        patch.setattr(task_read, "MAX_BATCH_ROWS", max_rows)
        patch.setattr(task_read, "MAX_BATCH_BYTES", max_bytes)
        found = list(regroup(batches(sizes)))
    assert [n for batch in found for n in batch.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(0 < batch.num_rows <= 50 for batch in found)
    assert all(one.num_rows >= 10 or one.num_rows + other.num_rows > 50 for one, other in pairwise(found))


def test_a_message_larger_than_a_batch_goes_alone() -> None:
    large = pa.record_batch({"value": pa.array([b"1", b"x" * (task_read.MAX_BATCH_BYTES + 1), b"3"], pa.binary())})
    assert [batch.num_rows for batch in regroup([large])] == [1, 1, 1]


def test_regroup_asks_for_no_more_than_it_gives() -> None:
    """Bounded memory: a batch is out before the next packs are fetched."""
    asked = 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal asked
        for batch in batches([task_read.MIN_BATCH_ROWS] * 3):
            asked += 1
            yield batch

    next(regroup(source()))
    assert asked == 1


def pack(start: int, sizes: list[int]) -> Pack:
    count = len(sizes)
    columns = Columns(list(range(count)), [bytes(size) for size in sizes], [0] * count)
    return Pack(KEY, start, start + 28 * count, columns)


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 40), max_size=9)), max_size=30), st.booleans())
def test_packs_are_gathered_by_range(sizes: list[tuple[int, list[int]]], all_end: bool) -> None:
    """Packs of a range are put together until they are enough for a batch."""
    packs = [(number, pack(28 * at, of_one)) for at, (number, of_one) in enumerate(sizes)]
    ends: list[tuple[int, Pack | None]] = [(number, None) for number in range(3)] if all_end else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_read, "MIN_BATCH_ROWS", 10)
        patch.setattr(task_read, "MIN_BATCH_BYTES", 100)
        found = list(gathered([*packs, *ends]))
    for number in range(3):
        groups = [group for one, group in found if one == number]
        given_out = [one for group in groups for one in group]
        of_it = [one for other, one in packs if other == number]
        assert given_out == (of_it if all_end else of_it[: len(given_out)])
        assert all(enough(group) for group in (groups[:-1] if all_end else groups))
        assert not any(enough(group[:-1]) for group in groups)
        assert all(groups)


def enough(packs: list[Pack]) -> bool:
    return sum(map(len, packs)) >= 10 or sum(len(body) for pack in packs for body in pack.bodies) >= 100
