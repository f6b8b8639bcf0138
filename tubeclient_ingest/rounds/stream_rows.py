"""What the job of an InLong group asks of Spark about a round's rows: whose they are, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from spark_source.options.table_uris import schema_in_sql
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.record import Count
from tubeclient_ingest.rounds.bad_records import BadRecords
from tubeclient_ingest.settings.group_settings import table_by_of, target_of
from tubeclient_ingest.settings.ingest_settings import DELTA, IngestSettings
from tubeclient_ingest.settings.table_by import REST, StreamId, TableBy
from tubeclient_ingest.tables.formats import JobTable, table_at
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tasks.counting import minute_of
from tubeclient_ingest.tasks.round_read import COLUMNS, NAME, RoundRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNTS_COLUMNS: Final = (
    "consumerGroup STRING, inlongGroupId STRING, stream STRING, minute TIMESTAMP, received BIGINT, written BIGINT,"
    " bad BIGINT, sequence BIGINT, runId STRING, time TIMESTAMP"
)


class StreamRows:
    """Of one job."""

    def __init__(
        self, spark: SparkSession, settings: IngestSettings, due: Callable[[SparkTable], None] = lambda _: None
    ) -> None:
        """`due` as SparkTable has it."""
        self._spark, self._due = spark, due
        self._settings = settings
        self._schemas: set[str] = set()
        """Of the catalog, which are known to be there."""
        self.no_counts = spark.createDataFrame([], _COUNTS_COLUMNS)
        """No rows, with the columns of the counts table."""

    def table_of(self, name: StreamId) -> JobTable:
        """The table in whose place the target has this name."""
        return table_at(self._spark, self._settings, target_of(self._settings, name), self._due)

    def make_schema(self, name: StreamId) -> None:
        """Make the catalog's schema for the table, if what streams are called says which that is."""
        schema, pattern = (schema_in_sql(target) for target in (target_of(self._settings, name), self._settings.target))
        if self._settings.table_format != DELTA:
            return  # whoever makes the table makes its namespace
        if schema not in self._schemas and schema != pattern and schema is not None:
            if not self._spark.catalog.databaseExists(schema):
                self._spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}").collect()
            self._schemas.add(schema)

    def open_bad_records(self, *, create: bool) -> None:
        """As BadRecords.open, if the job has such a table."""
        if (identifier := self._settings.bad_records) is not None:
            table = table_at(self._spark, self._settings, identifier)
            BadRecords(table, self._settings.consumer_group).open(create=create)

    def named(self, read: RoundRead, table_by: TableBy) -> DataFrame:
        """A round's rows with the names of their tables."""
        named = read.rows(table_by=table_by).fillna(REST, [NAME])
        # So that a kept round's batches are of few streams each, and a stream's part passes over the others.
        return named.sortWithinPartitions(NAME)

    def counted(
        self, named: DataFrame, *, by_partition: bool
    ) -> list[tuple[StreamId, int | None, PartitionKey | None, int]]:
        """How many rows there are by name, by minute in ms since 1970, and by partition if that is asked for."""
        from pyspark.sql import functions as F

        key = F.col("partitionKey") if by_partition else F.lit(None).cast("string")
        found = named.groupBy(F.col(NAME), minute_of(named), key).count().collect()
        return [(StreamId(name), minute, key and PartitionKey.parse(key), count) for name, minute, key, count in found]

    def columns(self, named: DataFrame) -> dict[str, set[str]]:
        """What events say of the columns, by stream, as TableBy has it."""
        if not table_by_of(self._settings).reads_columns:
            return {}
        found: dict[str, set[str]] = {}
        for name, text in named.select(NAME, COLUMNS).where(f"{COLUMNS} IS NOT NULL").distinct().collect():
            found.setdefault(name, set()).add(text)
        return found

    def part(self, named: DataFrame, names: Collection[str], partitions: Collection[PartitionKey] | None) -> DataFrame:
        """The rows with these names, of these partitions (None: of all), as the source gives them."""
        from pyspark.sql import functions as F

        rows = named.where(F.col(NAME).isin(*names))
        if partitions is not None:
            rows = rows.where(F.col("partitionKey").isin(*map(str, partitions)))
        return rows.drop(NAME, COLUMNS)

    def counted_rows(
        self, counts: Mapping[str, Sequence[Count]], sequence: int, run_id: str, time: datetime
    ) -> list[tuple[Any, ...]]:
        """Rows for the counts table, of the commit with this number and time."""
        groups = self._settings.consumer_group, self._settings.inlong_group
        return [
            (*groups, name, _moment(ms), received, received - bad, bad, sequence, run_id, time)
            for name, some in counts.items()
            for ms, received, bad in some
        ]

    def counts(self, counts: Mapping[str, Sequence[Count]], sequence: int, run_id: str, time: datetime) -> DataFrame:
        """The same for Spark."""
        made = self.counted_rows(counts, sequence, run_id, time)
        return self._spark.createDataFrame(made, self.no_counts.schema) if made else self.no_counts


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
