"""The rows of a read's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Read", "assert_in_order", "bodies_of", "reads_of"]


class Read(NamedTuple):
    """A row, and which task gave it."""

    task: int
    partition: int
    body: bytes


def reads_of(frame: DataFrame) -> list[Read]:
    """All rows, those of a task in the order in which it gave them."""
    from pyspark.sql.functions import spark_partition_id

    rows = frame.select(spark_partition_id().alias("task"), "partition", "value").collect()
    return [Read(row.task, row.partition, bytes(row.value)) for row in rows]


def bodies_of(reads: list[Read]) -> list[bytes]:
    return sorted(read.body for read in reads)


def assert_in_order(reads: list[Read]) -> None:
    """Messages are numbered as they lie in their store, so those of a partition rise within a task."""
    last: dict[tuple[int, int], bytes] = {}
    for read in reads:
        assert last.get((read.task, read.partition), b"") < read.body
        last[read.task, read.partition] = read.body
