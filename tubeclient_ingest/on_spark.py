"""The engine of a run: a session of Spark, classic or Connect, and the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_source.boundary import passed_on
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.progress.progress_table import ProgressTable
from spark_source.read.schema import spark_schema
from spark_source.read.task_read import read_task
from spark_source.session_confs import SESSION_ZONE, own_session
from spark_source.stream.planner import StreamPlanner
from spark_source.typed.record_format import MEANING
from tubeclient_ingest.bad_records import BadRecords
from tubeclient_ingest.settings import IngestSettings
from tubeclient_ingest.target import SparkTable
from tubeclient_ingest.writing import Writer

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkEngine"]


class SparkEngine:
    """Of the session `spark`; see `on`."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @classmethod
    @contextmanager
    def on(cls, spark: SparkSession, settings: IngestSettings) -> Iterator[SparkEngine]:
        """An engine in which records mean what `settings` say, whatever the settings of `spark`."""
        with own_session(spark, {**MEANING, SESSION_ZONE: settings.records.zone}) as own:
            yield cls(own)

    def planner(self, options: SourceOptions) -> StreamPlanner:
        cluster = TubeCluster(client_settings(options), options)
        return StreamPlanner(options, cluster, ProgressTable(options))

    def rows(self, options: SourceOptions, tasks: Sequence[ReadTask]) -> DataFrame:
        return rows_of(self.spark, options, tasks)

    def writer(self, settings: IngestSettings, options: SourceOptions, run_id: str) -> Writer:
        place = settings.bad_records
        return Writer(
            self.spark,
            settings,
            options,
            run_id,
            SparkTable(self.spark, settings.target),
            None if place is None else BadRecords(self.spark, place, settings.consumer_group),
            settings.records.record_format(),
        )


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


def _reader(tasks: _Tasks) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def read(numbers: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from tasks.read(number)

    return read
