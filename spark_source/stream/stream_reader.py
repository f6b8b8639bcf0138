"""The streaming reader that Spark calls; it delegates to the planner, and to reading tasks.

One class is used in three places. Spark's planner process asks it for offsets during a query's whole life. A second
copy, made in a short-lived process, is pickled and sent to the tasks, and only reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_source.boundary import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    as_one_line,
    one_line_errors,
)
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.read.task_read import read_task
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

    from spark_source.stream.planner import StreamPlanner


Json: TypeAlias = dict[str, Any]
"""Offsets in the form of Spark's checkpoint."""

_CACHED_BATCHES: Final = 4
"""Start and end of the batch, start of the previous one, and one more."""


class CheckpointOffsets:
    """Offsets passed to and from Spark. It passes the same ones several times per batch, and to parse those of
    thousands of partitions takes long."""

    def __init__(self) -> None:
        self._passed: deque[tuple[Json, Offsets]] = deque(maxlen=_CACHED_BATCHES)

    def parsed(self, given: Json) -> Offsets:
        """ConfigurationError if they are invalid."""
        for text, known in self._passed:
            if text == given:
                return known
        parsed = Offsets.from_dict(given)
        self._passed.append((given, parsed))
        return parsed

    def written(self, offsets: Offsets) -> Json:
        """In Spark's form; Spark will pass them back."""
        text = offsets.to_dict()
        if not any(known is offsets for _, known in self._passed):
            self._passed.append((text, offsets))
        return text


class TubeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of exact ranges. Opens nothing until Spark asks for offsets.

    With `refusal` each call raises it: Spark 4.2 hides an error of `streamReader` itself, stops the reader that it did
    not get, and reports that it has none (`main` of pyspark/sql/streaming/python_streaming_source_runner.py).
    """

    def __init__(self, options: SourceOptions | None, refusal: Exception | None = None) -> None:
        self._given = options
        self._refusal = refusal
        self._planner: StreamPlanner | None = None
        self._offsets = CheckpointOffsets()
        self._latest: Json | None = None
        """Where the last batch ended, for Spark before 4.2, which does not pass it."""

    def __getstate__(self) -> dict[str, Any]:
        """For the tasks, which need neither the planner nor access to the offsets table."""
        given = None if self._given is None else self._given.for_tasks()
        return {**self.__dict__, "_given": given, "_planner": None, "_latest": None, "_offsets": CheckpointOffsets()}

    @property
    def _options(self) -> SourceOptions:
        if self._refusal is not None:
            raise self._refusal
        assert self._given is not None
        return self._given

    @as_one_line()
    def prepareForTriggerAvailableNow(self) -> None:
        self._planning().freeze_end()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._given is None:
            return ReadAllAvailable()
        # Spark's Python API has no composite limit. Any limit here distinguishes this reader's default from triggers
        # that want everything; if both limits are set, latestOffset adds the minimum itself.
        most, fewest = self._given.max_offsets_per_trigger, self._given.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if fewest is None else ReadMinRows(fewest)

    @as_one_line()
    def initialOffset(self) -> Json:
        return self._offsets.written(self._planning().initial())

    @as_one_line()
    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> Json:
        if start is None:
            # Spark before 4.2 passes neither argument. The start is the end of the previous batch; for a query with a
            # checkpoint Spark tells it once, by asking for the partitions of an empty batch there.
            self._latest = self._latest_from(self._latest or self.initialOffset(), None)
            return self._latest
        if not isinstance(limit, ReadAllAvailable | ReadMaxRows | ReadMinRows):
            raise ConfigurationError(f"tubeclient does not support the read limit {type(limit).__name__}")
        return self._latest_from(
            start,
            limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            None if isinstance(limit, ReadAllAvailable) else self._options.min_offsets_per_trigger,
        )

    def _latest_from(self, start: Json, max_rows: int | None, min_rows: int | None = None) -> Json:
        planner, begin = self._planning(), self._offsets.parsed(start)
        end = planner.latest(begin, max_rows, min_rows)
        return start if end is begin else self._offsets.written(end)

    @as_one_line()
    def reportLatestOffset(self) -> Json | None:
        latest = None if self._planner is None else self._planner.reported_latest()
        return None if latest is None else latest.to_dict()

    @as_one_line()
    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        if start == end:
            self._latest = end
        planner = self._planning()
        return planner.partitions(self._offsets.parsed(start), self._offsets.parsed(end))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return one_line_errors(read_task(self._options, partition)) if isinstance(partition, ReadTask) else iter(())

    @as_one_line()
    def commit(self, end: Json) -> None:
        planner = self._planning()
        planner.complete(self._offsets.parsed(end))

    def stop(self) -> None:
        if self._planner is not None:
            from spark_source.stream.planner_process import ignore_termination

            ignore_termination()
            self._planner.close()

    def _planning(self) -> StreamPlanner:
        if self._planner is None:
            # Imported here: tasks load this module too and do not need most of it.
            from spark_source.cluster.cluster import TubeCluster
            from spark_source.progress.progress_table import ProgressTable
            from spark_source.stream.planner import StreamPlanner
            from spark_source.stream.planner_process import set_up_planner_process

            set_up_planner_process()
            options = self._options
            self._planner = StreamPlanner(options, TubeCluster(options), ProgressTable(options))
        return self._planner
