"""The job's tables in the format that it writes: Delta's, or Iceberg's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tubeclient_ingest.settings.ingest_settings import DELTA, IngestSettings
from tubeclient_ingest.tables.iceberg_table import IcebergTable
from tubeclient_ingest.tables.log_table import LogTable
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tables.table_detail import TableDetail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FilesTable", "JobTable", "files_of", "table_at"]

JobTable: TypeAlias = SparkTable | IcebergTable
"""A table as the job looks at it and makes it."""
FilesTable: TypeAlias = LogTable | IcebergTable
"""A table as tasks write it."""


def table_at(
    spark: SparkSession, settings: IngestSettings, identifier: str, due: Callable[[SparkTable], None] = lambda _: None
) -> JobTable:
    """The job's table, by its path or name; `due` as SparkTable has it."""
    if settings.table_format == DELTA:
        return SparkTable(spark, identifier, due, settings.storage_options)
    return IcebergTable(spark, identifier, settings.warehouse, settings.storage_options)


def files_of(table: JobTable, detail: TableDetail, storage_options: Mapping[str, str]) -> FilesTable | str:
    """The table as tasks write it, or why they cannot."""
    if isinstance(table, SparkTable):
        return LogTable.of(table, detail, storage_options)
    table.open_files()
    return table
