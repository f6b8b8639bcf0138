"""A round's rows: exact ranges of the planner's, one task for each node, read where Spark runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from spark_source.boundary import passed_on
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.read.schema import spark_schema
from spark_source.read.task_read import read_task

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["no_rows", "rows_of"]


class _Tasks:
    """What the tasks of a round need: no access to the offsets table."""

    def __init__(self, options: SourceOptions, tasks: Sequence[ReadTask]) -> None:
        self._options = options.for_tasks()
        self._tasks = tasks

    def read(self, number: int) -> Iterator[pyarrow.RecordBatch]:
        return passed_on(read_task(self._options, self._tasks[number]))


def rows_of(spark: SparkSession, options: SourceOptions, tasks: Sequence[ReadTask]) -> DataFrame:
    """The rows of the tasks' ranges, with the columns of the source; each computation reads the same ones."""
    # Each partition has one number, its task's: what Spark runs again reads the same ranges.
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_reader(_Tasks(options, tasks)), spark_schema(options))


def no_rows(spark: SparkSession, options: SourceOptions) -> DataFrame:
    """No rows, with the columns of the source."""
    return spark.createDataFrame([], spark_schema(options))


def _reader(tasks: _Tasks) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def read(numbers: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from tasks.read(number)

    return read
