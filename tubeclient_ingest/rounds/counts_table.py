"""The counts table of an InLong group. Its newest commit is the group's checkpoint; Audit is told what it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_source.offsets.offsets import Offsets
from spark_source.options.table_uris import text_in_sql
from spark_source.read.schema import arrow_types
from tubeclient.admin.inlong_audit import AuditReporter
from tubeclient.errors import ConfigurationError
from tubeclient.wire.audit import encode_reports
from tubeclient_ingest.commits.beginning import OF_COUNTS
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import Count, Move, Reached, SinkRecord
from tubeclient_ingest.rounds.group_table import GroupTable
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.rounds.stream_rows import StreamRows
from tubeclient_ingest.settings.group_settings import table_by_of
from tubeclient_ingest.settings.ingest_settings import SPARK, IngestSettings
from tubeclient_ingest.settings.table_by import COUNTS, REST, StreamId
from tubeclient_ingest.tables.data_files import DataFile, DataFiles
from tubeclient_ingest.tables.formats import FilesTable, files_of
from tubeclient_ingest.tables.table_detail import TABLE_BY, GroupProperty, TableDetail
from tubeclient_ingest.tasks.counting import Counted
from tubeclient_ingest.tasks.round_read import TablePart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CountsTable:
    """Of one run. It is the writer of its checkpoint."""

    def __init__(self, rows: StreamRows, settings: IngestSettings, masters: tuple[str, ...]) -> None:
        self._rows, self._group = rows, settings.inlong_group or ""
        self._table_by = table_by_of(settings).text
        self._table = rows.table_of(COUNTS)
        self.auditing = AuditReporter(settings.audit_proxies or "")
        self.sink = Sink(self._table, settings.consumer_group)
        self._settings = settings
        self._log: FilesTable | None = None
        self._files: tuple[DataFile, ...] = ()
        """What its next commit adds."""
        self.why_spark = ""
        self.checkpoint = GroupTable(self, settings, masters, OF_COUNTS)

    def open(self, *, create: bool) -> None:
        """Make the table if it is missing; without `create` that is a ConfigurationError."""
        detail = self._table.detail()
        if detail is None:
            if not create:
                raise ConfigurationError(f"there is no table at {self._table.where}; start the job")
            self._rows.make_schema(COUNTS)
            group = self._settings.consumer_group
            properties = {**GroupProperty().properties(group), TABLE_BY + group: self._table_by}
            detail = self._table.create(self._rows.no_counts.schema, properties=properties)
        self._check_table_by(detail)
        self._choose(detail)

    def _check_table_by(self, detail: TableDetail | None) -> None:
        """What tables lack is known by their streams' names, and so only as long as the same tells them apart."""
        if detail is None:
            return
        name = TABLE_BY + self._settings.consumer_group
        if (before := detail.properties.get(name)) is None:
            self._table.set_properties({name: self._table_by})
        elif before != self._table_by:
            raise ConfigurationError(
                f"the tables of {self._table.where} are by {before}, but the job writes them by {self._table_by}. "
                "Use another target and consumer group, or the former setting"
            )

    def _choose(self, detail: TableDetail | None) -> None:
        """Look who writes the table, as Writer does."""
        self._log = None
        if self._settings.writer != SPARK and detail is not None:
            found = files_of(self._table, detail, self._settings.storage_options)
            self._log = None if isinstance(found, str) else found
        self.sink.use(self._log or self._table)

    def streams(self) -> set[StreamId]:
        """Those of the group that it has counts of: it may have other groups' too."""
        own = self._table.rows().where(f"consumerGroup = {text_in_sql(self._settings.consumer_group)}")
        names = (row[0] for row in own.select("stream").distinct().collect())
        return {StreamId(name) for name in names} - {REST}

    def commit(
        self,
        counts: Mapping[str, tuple[Count, ...]],
        ends: Offsets,
        streams: Mapping[str, Reached],
        resets: Mapping[str, int],
        moves: tuple[Move, ...],
    ) -> None:
        """Write `counts`, by stream, and the checkpoint; then report them."""
        sequence, run_id, now = self.checkpoint.state.sequence + 1, self.checkpoint.run_id, datetime.now(UTC)
        if self._log is None:
            rows = self._rows.counts(counts, sequence, run_id, now)
            self.checkpoint.write(rows, ends, streams, resets=resets, moves=moves)
        else:
            self._files = self._written(self._rows.counted_rows(counts, sequence, run_id, now))
            self.checkpoint.write(None, ends, streams, resets=resets, moves=moves)
        own = [(name, count) for name in counts.keys() - {REST} for count in counts[name]]
        reported = [(name, count.minute_ms, count.received, count.received - count.bad) for name, count in own]
        sender = run_id, int(now.timestamp() * 1000), sequence
        self.auditing.report(encode_reports(self._group, sender, reported))

    def _written(self, rows: Sequence[tuple[Any, ...]]) -> tuple[DataFile, ...]:
        """A file with these rows; none without rows."""
        assert self._log is not None
        if not rows:
            return ()
        schema = arrow_types(self._rows.no_counts.schema)
        files = DataFiles(self._log.destination(schema))
        columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
        files.add(pa.table(columns, schema=schema))
        return tuple(files.close())

    def write(
        self, rows: DataFrame | TablePart | None, record: SinkRecord, state: SinkState
    ) -> tuple[SinkState, Counted]:
        assert not isinstance(rows, TablePart)
        if self._log is None:
            return self.sink.append(rows, record, state), Counted()
        files, self._files = self._files, ()
        return self.sink.append(None, record, state, partial(self._log.commit, files)), Counted()

    def read_ahead(self) -> None:
        """As Writer.read_ahead."""
        if self._log is None:
            self._table.read_ahead()

    def confirm(self, state: SinkState) -> None:
        """It has no bad records."""
