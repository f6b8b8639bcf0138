"""The job's Delta table through delta-rs: a look at its log and a commit of files take milliseconds, and no Spark.

A commit is made on the version of the last look. delta-rs refuses it if another commit of the group's transaction, of
the table's columns, properties or protocol came since: so nobody else's commit can be overlooked.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from spark_source.options.table_uris import limited
from tubeclient_ingest.commits.beginning import TableChanged
from tubeclient_ingest.commits.history import Commit
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.tables.data_files import DataFile, FileDestination
from tubeclient_ingest.tables.delta_log import DeltaLog
from tubeclient_ingest.tables.file_statistics import INDEXED_COLUMNS
from tubeclient_ingest.tables.spark_errors import LogError
from tubeclient_ingest.tables.table_detail import (
    INDEXED,
    TableDetail,
    is_known_to_delta_rs,
    local_folder,
    mark_of,
    why_not,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

    from tubeclient_ingest.tables.spark_table import SparkTable


UPKEEP_COMMITS: Final = 50
"""A table's files are put together at each multiple of this version; the run that passes it does so."""


class LogTable:
    """A table of which `SparkTable` has the columns and properties. Errors are those of `SparkTable`, and LogError."""

    def __init__(self, table: SparkTable, detail: TableDetail, log: DeltaLog, options: Mapping[str, str]) -> None:
        self._table, self._detail, self._log = table, detail, log
        self.sql, self.where, self.uri = table.sql, table.where, log.uri
        self._options = options
        self._mark: object = None
        self._version: int | None = None
        """Of the last look."""
        self._named_at = time.monotonic()
        """When the catalog said where the table is."""

    @classmethod
    def of(cls, table: SparkTable, detail: TableDetail, storage_options: Mapping[str, str]) -> LogTable | str:
        """The table, or why it cannot be written without Spark."""
        folder = local_folder(detail.location)
        if folder is None and not storage_options:
            return f"storage-options are not given, and it is in {urlsplit(detail.location).scheme or 'a catalog'}"
        if folder is not None and not is_known_to_delta_rs(folder):
            return "its path has characters that delta-rs does not accept"
        try:
            import deltalake  # noqa: F401
        except ImportError:
            return "the package deltalake is missing"
        uri, options = folder or detail.location, limited(detail.location, storage_options)
        log = table.log if table.log is not None and table.log.uri == uri else DeltaLog(uri, table.where, options)
        try:
            handle = log.refresh()
        except LogError as error:
            return f"delta-rs cannot read it: {error}"
        if handle is None or str(handle.metadata().id) != detail.table_id:
            return "this process does not see its files"
        if (reason := why_not(handle, detail)) is not None:
            return reason
        found = cls(table, detail, log, options)
        found._mark = mark_of(handle)
        return found

    def destination(self, schema: pa.Schema) -> FileDestination:
        """Where tasks write rows with these columns."""
        indexed = int(self._detail.properties.get(INDEXED, INDEXED_COLUMNS))
        return FileDestination(self.uri, schema, tuple(self._detail.partition_by), indexed, self._options)

    def detail(self) -> TableDetail | None:
        """As of the last look, which a commit is made on; None if there is no table."""
        handle = self._log.handle or self._refreshed()
        if handle is None:
            return None
        return self._detail if mark_of(handle) == self._mark else self._table.detail()

    def history(self, limit: int) -> list[Commit]:
        """As SparkTable.history."""
        self._refreshed()
        return [entry.commit for entry in self._log.commits(limit)]

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        """As SparkTable.removing."""
        return self._table.removing(versions, location)

    def last_number(self, transaction_id: str, _: TableDetail) -> int:
        """As SparkTable.last_number."""
        handle = self._log.handle
        with self._log.as_log_errors():
            return 0 if handle is None else handle.transaction_version(transaction_id) or 0

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """As SparkTable.set_properties."""
        self._table.set_properties(properties)

    def append(self, rows: DataFrame | None, record: SinkRecord, *, evolve: bool = False) -> None:
        """As SparkTable.append."""
        if rows is None:
            self.commit((), record)
        else:
            self._table.append(rows, record, evolve=evolve)

    def commit(self, files: Sequence[DataFile], record: SinkRecord | None = None) -> None:
        """Commit files; with a record, it and its transaction. TableChanged: the table is not what it was when the job
        chose to write files."""
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        handle = self._log.handle
        with self._log.as_log_errors():
            is_same = handle is not None and mark_of(handle) == self._mark and self._log.is_same()
        if handle is None or not is_same:
            raise TableChanged
        properties = CommitProperties(max_commit_retries=_RETRIES)
        if record is not None:
            # delta-rs refuses only what came since the handle's version.
            if record.based_on is not None and record.based_on != handle.version():
                raise LogError(
                    f"{self.where} was read again after the state that the commit is based on", is_conflict=True
                )
            with self._log.as_log_errors():
                taken = handle.transaction_version(record.transaction_id)
            if taken is not None and taken >= record.sequence:
                raise LogError(
                    f"{self.where} already has a commit with number {taken}, which this commit does not exceed",
                    is_conflict=True,
                )
            properties = CommitProperties(
                custom_metadata={"userMetadata": record.to_json()},
                app_transactions=[Transaction(record.transaction_id, record.sequence)],
                max_commit_retries=_RETRIES,
            )
        added: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, file.partition_values, file.modified_ms, True, file.stats) for file in files
        ]
        with self._log.as_log_errors():
            handle.create_write_transaction(
                added, "append", handle.schema(), list(self._detail.partition_by), commit_properties=properties
            )

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether rows may be gone that its files have."""
        handle = self._refreshed()
        return handle is None or "deletionVectors" in (handle.protocol().reader_features or ())

    def query(self, sql: str, *values: str | int) -> dict[str, list[Any]]:
        """The rows that DataFusion finds in the table `log`, by column; each {} in the SQL is one of the values."""
        import pyarrow as pa
        from deltalake import QueryBuilder

        handle = self._refreshed()
        assert handle is not None
        with self._log.as_log_errors():
            texts = (str(value).replace("'", "''") for value in values)
            # pyarrow pulls the rows: deltalake's own read_all() blocks all threads of the process meanwhile.
            found = QueryBuilder().register("log", handle).execute(sql.format(*texts))
            rows: dict[str, list[Any]] = pa.RecordBatchReader.from_stream(found).read_all().to_pydict()
            return rows

    def _refreshed(self) -> DeltaTable | None:
        """The table that is there now. TableChanged: its name is another table's."""
        if self._table.is_named and time.monotonic() - self._named_at > _ASK_AGAIN_SECONDS:
            self._named_at, now = time.monotonic(), self._table.detail()
            if now is None or (now.table_id, now.location) != (self._detail.table_id, self._detail.location):
                raise TableChanged
        handle = self._log.refresh()
        version, self._version = self._version, None if handle is None else handle.version()
        if handle is not None and version is not None:
            self._tidy(handle, version)
        return handle

    def _tidy(self, handle: DeltaTable, before: int) -> None:
        """Write a checkpoint of the log and ask for upkeep, if it is time for that since the version `before`."""

        def is_due(commits: int) -> bool:
            return handle.version() // commits > before // commits

        properties = self._detail.properties
        if "delta.checkpointInterval" not in properties and is_due(_CHECKPOINT_COMMITS):  # otherwise delta-rs does
            with contextlib.suppress(Exception):  # the next look only takes longer
                handle.create_checkpoint()
        if properties.get("delta.autoOptimize.autoCompact", "").lower() != "false" and is_due(UPKEEP_COMMITS):
            self._table.ask_for_upkeep()


_ASK_AGAIN_SECONDS: Final = 600.0
"""How often to ask where a name's table is, which takes Spark a second or two."""
_CHECKPOINT_COMMITS: Final = 10
"""Spark's; delta-rs waits for a hundred, and until then each look and commit takes longer: 12 ms a commit, not 6."""
_RETRIES: Final = 200
"""How often a commit is tried while other writers are faster."""
