"""The counts table of an InLong group. Its newest commit is the group's checkpoint; Audit is told what it counts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spark_source.offsets.offsets import Offsets
from tubeclient.admin.inlong_audit import AuditReporter
from tubeclient.errors import ConfigurationError
from tubeclient.wire.audit import encode_reports
from tubeclient_ingest.beginning import OF_COUNTS
from tubeclient_ingest.group_settings import COUNTS, REST
from tubeclient_ingest.group_table import GroupTable
from tubeclient_ingest.history import SinkState
from tubeclient_ingest.record import Count, Reached, SinkRecord
from tubeclient_ingest.settings import IngestSettings
from tubeclient_ingest.sink import Sink
from tubeclient_ingest.stream_rows import StreamRows
from tubeclient_ingest.writing import Counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CountsTable:
    """Of one run. It is the writer of its checkpoint."""

    def __init__(self, rows: StreamRows, settings: IngestSettings, masters: tuple[str, ...], run_id: str) -> None:
        self._rows, self._group, self._run_id = rows, settings.inlong_group or "", run_id
        self._table = rows.table_of(COUNTS)
        self.auditing = AuditReporter(settings.audit_proxies or "")
        self.sink = Sink(self._table, settings.consumer_group)
        self.checkpoint = GroupTable(self, settings, masters, run_id, OF_COUNTS)

    def open(self, *, create: bool) -> None:
        """Make the table if it is missing; without `create` that is a ConfigurationError."""
        if self._table.detail() is None:
            if not create:
                raise ConfigurationError(f"there is no table at {self._table.where}; start the job")
            self._table.create(self._rows.no_counts.schema)

    def commit(self, counts: Mapping[str, tuple[Count, ...]], ends: Offsets, streams: Mapping[str, Reached]) -> None:
        """Write `counts`, by stream, and the checkpoint; then report them."""
        sequence, now = self.checkpoint.state.sequence + 1, datetime.now(UTC)
        self.checkpoint.write(self._rows.counts(counts, sequence, self._run_id, now), ends, streams)
        own = [(name, one) for name in counts.keys() - {REST} for one in counts[name]]
        told = [(name, one.minute_ms, one.received, one.received - one.bad) for name, one in own]
        sender = self._run_id, int(now.timestamp() * 1000), sequence
        self.auditing.report(encode_reports(self._group, sender, told))

    def write(self, rows: DataFrame | None, record: SinkRecord, state: SinkState) -> tuple[SinkState, Counted]:
        return self.sink.append(rows, record, state), Counted()

    def settle(self, state: SinkState) -> None:
        """It has no bad records."""
