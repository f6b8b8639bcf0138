"""The engine of a run: a session of Spark, classic or Connect, and the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.progress.progress_table import ProgressTable
from spark_source.session_confs import SESSION_ZONE, own_session
from spark_source.stream.planner import StreamPlanner
from spark_source.typed.record_format import MEANING
from tubeclient_ingest.bad_records import BadRecords
from tubeclient_ingest.rows import rows_of
from tubeclient_ingest.settings import IngestSettings
from tubeclient_ingest.target import SparkTable
from tubeclient_ingest.writing import Writer

if TYPE_CHECKING:
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
        cluster = TubeCluster(client_settings(options), options, options.bad_messages)
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
