"""The floor: a source in Python with next to no code. What it takes, Spark takes for any source in Python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

__all__ = ["EACH_NS", "FloorSource"]

EACH_NS = 50_000_000
"""The stream has a row at each multiple of it, nanoseconds since 1970."""
_ROWS_AT_ONCE = 10_000
_BYTES_AT_ONCE = 4 << 20
"""Of larger batches each row costs Spark more: three times as much in 320 MB as in 1 to 16."""


class FloorSource(DataSource):
    """Option `rows`: how many a batch read has, of `bodyBytes` bytes, in `tasks` tasks. A stream tells the time."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return "value binary"

    def reader(self, schema: Any) -> DataSourceReader:
        return _Rows(int(self.options["rows"]), int(self.options["bodyBytes"]), int(self.options["tasks"]))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _Clock()


class _Rows(DataSourceReader):
    def __init__(self, rows: int, body_bytes: int, tasks: int) -> None:
        self._rows, self._body_bytes, self._tasks = rows, body_bytes, tasks

    def partitions(self) -> Sequence[InputPartition]:
        borders = [self._rows * number // self._tasks for number in range(self._tasks + 1)]
        return [InputPartition((first, end)) for first, end in pairwise(borders)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        first, end = partition.value
        at_once = min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // self._body_bytes, end - first)
        some = pa.array([b"0" * self._body_bytes] * at_once, pa.binary())
        for begin in range(first, end, at_once):
            yield pa.RecordBatch.from_arrays([some.slice(0, end - begin)], ["value"])


class _Clock(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return self.latestOffset({}, None)

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"number": time.time_ns() // EACH_NS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["number"], end["number"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        first, end = partition.value
        times = [b"%d" % (number * EACH_NS) for number in range(first + 1, end + 1)]
        yield pa.RecordBatch.from_arrays([pa.array(times, pa.binary())], ["value"])
