"""Who writes a table's rounds: tasks, where that is the same to all who read the table, or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tubeclient_ingest.settings.ingest_settings import SPARK, IngestSettings
from tubeclient_ingest.tables.formats import FilesTable, JobTable, files_of
from tubeclient_ingest.tables.table_detail import TableDetail
from tubeclient_ingest.tables.target_columns import TargetRules

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

    from spark_source.typed.record_format import RecordFormat

__all__ = ["open_files", "why_spark"]


def why_spark(settings: IngestSettings, form: RecordFormat, columns: StructType, rules: TargetRules) -> str:
    """Why Spark has to write rows with these columns, whatever the table is; empty if nothing says so."""
    if settings.writer == SPARK:
        return f"writer is {SPARK}"
    if form.keys:
        return "rows are merged by a key"
    if variant := next((column.name for column in columns if '"variant"' in column.dataType.json()), None):
        return f"{variant} is VARIANT"
    return rules.others


def open_files(
    settings: IngestSettings,
    target: JobTable,
    detail: TableDetail,
    columns: StructType,
) -> FilesTable | str:
    """The table as tasks write rows with these columns, or why Spark has to."""
    there = {column.name for column in columns}
    for column in detail.columns:
        if column.name not in there and (column.name in detail.partition_by or not column.nullable):
            return f"the rows lack {column.name}, which partitions the table or is NOT NULL there"
    if other := next((column.name for column in columns if not _is_same(column, detail.columns)), None):
        return f"the table has {other} in another form"
    return files_of(target, detail, settings.storage_options)


def _is_same(column: StructField, table: StructType) -> bool:
    """Whether the table has the column in this form, down to the case of names."""
    there = next((other for other in table if other.name == column.name), None)
    return there is not None and there.dataType.simpleString() == column.dataType.simpleString()
