"""A round's ranges as tasks read them: rows for Spark to write, or files that the tasks write themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.boundary import one_line_errors
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.read.schema import spark_schema
from spark_source.read.task_read import read_task
from tubeclient_ingest.settings.table_by import TableBy
from tubeclient_ingest.tasks.staging import RESULT, Route, Routing, Staged, by_name, merged, stage_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spark_source.typed.decoding import Decoding

__all__ = ["COLUMNS", "NAME", "RoundRead", "TablePart", "read_tasks"]

NAME: Final = "__stream"
"""The column of the stream that a row is of."""
COLUMNS: Final = "__columns"
"""The column of what events say of a stream's columns, as TableBy has it, which is in one row of each task."""


class RoundRead:
    """The ranges of one round. Each use reads the same messages."""

    def __init__(
        self, spark: SparkSession, options: SourceOptions, tasks: Sequence[ReadTask], arrival: str | None
    ) -> None:
        """`arrival` names a column more, as `read_task` has it."""
        self._spark, self._options, self._tasks, self._arrival = spark, options, tasks, arrival

    def rows(self, decoding: Decoding | None = None, table_by: TableBy | None = None) -> DataFrame:
        """The rows, with the columns of the source; with `decoding` decoded, with `table_by` beside the columns `NAME`,
        which is null in those of no stream, and `COLUMNS`."""
        from pyspark.sql.types import LongType, StringType

        columns = spark_schema(self._options)
        if self._arrival is not None:
            columns = columns.add(self._arrival, LongType())
        if decoding is not None:
            columns = decoding.schema(columns)
        if table_by is not None:
            columns = columns.add(NAME, StringType()).add(COLUMNS, StringType())
        options = self._options.for_tasks()
        return self._in_tasks(partial(read_tasks, options, self._tasks, self._arrival, decoding, table_by), columns)

    def stage(self, routing: Routing, routes: Mapping[str, Route]) -> dict[str, Staged]:
        """What tasks read and write for these tables. Tables without a route have counts only."""
        from pyspark.sql.types import StringType, StructField, StructType

        work = partial(stage_tasks, self._options.for_tasks(), self._tasks, self._arrival, routing, routes)
        found = self._in_tasks(work, StructType([StructField(RESULT, StringType())])).collect()
        return merged((row[0] for row in found), routes)

    def _in_tasks(self, work: partial[Iterator[pa.RecordBatch]], columns: StructType) -> DataFrame:
        # Each partition has one number, its task's: what Spark runs again reads the same ranges.
        count = len(self._tasks)
        return self._spark.range(0, count, 1, count).mapInArrow(work, columns)


class TablePart:
    """What one table gets of a round, as files."""

    def __init__(
        self,
        read: RoundRead,
        routing: Routing,
        name: str,
        found: Staged | None = None,
        partitions: frozenset[str] | None = None,
    ) -> None:
        """`partitions` are those of the route by which `found` was written."""
        self._read, self._routing, self._name, self._found = read, routing, name, found
        self.partitions = partitions

    def stage(self, route: Route) -> Staged:
        """The files for the table's commit of the route's number: what is there, or what tasks write now."""
        if self._found is None or self._found.number != route.number:
            staged = self._read.stage(self._routing, {self._name: route})
            self._found = staged.get(self._name, Staged(route.number))
        return self._found


def read_tasks(
    options: SourceOptions,
    tasks: Sequence[ReadTask],
    arrival: str | None,
    decoding: Decoding | None,
    table_by: TableBy | None,
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The function of a round's frame. `options` are those for tasks: without access to the offsets table."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            rows = one_line_errors(read_task(options, tasks[number], arrival))
            rows = rows if decoding is None else decoding(rows)
            yield from rows if table_by is None else _named(rows, table_by)


def _named(rows: Iterator[pa.RecordBatch], table_by: TableBy) -> Iterator[pa.RecordBatch]:
    names, columns_of, seen = table_by.names(), table_by.columns_of(), set[tuple[str, str]]()
    for whole in rows:
        found = names(whole)
        columns = columns_of(whole, found)
        for name, batch in by_name(whole, pc.fill_null(found, "")):
            new = [text for text in columns.get(name, ()) if (name, text) not in seen]
            seen.update((name, text) for text in new)
            named = pa.array([name or None] * batch.num_rows, pa.string())
            marks = [*new, *[None] * (batch.num_rows - len(new))]  # there are no more than events
            yield batch.append_column(NAME, named).append_column(COLUMNS, pa.array(marks, pa.string()))
