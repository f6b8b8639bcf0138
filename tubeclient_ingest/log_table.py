"""The job's Delta table through delta-rs: a look at its log and a commit of files take milliseconds, and no Spark.

A commit is made on the version of the last look. delta-rs refuses it if another commit of the group's transaction, of
the table's columns, properties or protocol came since: so nobody else's commit can be overlooked.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from offsets_store.errors import scrub
from spark_source.options.table_uris import limited
from tubeclient_ingest.beginning import TableChanged
from tubeclient_ingest.data_files import DataFile, Place
from tubeclient_ingest.file_statistics import INDEXED_COLUMNS
from tubeclient_ingest.history import Commit
from tubeclient_ingest.record import SinkRecord
from tubeclient_ingest.spark_errors import LogError
from tubeclient_ingest.table_detail import (
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
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame

    from tubeclient_ingest.target import SparkTable


UPKEEP_COMMITS: Final = 50
"""A table's files are put together at each multiple of this version; the run that passes it does so."""


class LogTable:
    """A table of which `SparkTable` has the columns and properties. Errors are those of `SparkTable`, and LogError."""

    def __init__(self, table: SparkTable, detail: TableDetail, storage_options: Mapping[str, str]) -> None:
        self._table, self._detail = table, detail
        self.sql, self.where = table.sql, table.where
        self._options = limited(detail.location, storage_options)
        self.uri = local_folder(detail.location) or detail.location
        self._handle: DeltaTable | None = None
        self._newest: _Entry | None = None
        """The newest commit of the last look."""
        self._mark: object = None
        self._named_at = time.monotonic()
        """When the catalog said where the table is."""
        self._entries: dict[int, _Entry] = {}
        """Commits by their versions, as far as the last looks read them."""

    @cached_property
    def _log(self) -> FileSystem:
        import pyarrow as pa

        return Place(self.uri, pa.schema([]), storage_options=self._options).file_system()

    @classmethod
    def of(cls, table: SparkTable, detail: TableDetail, storage_options: Mapping[str, str]) -> LogTable | str:
        """The table, or why it cannot be written without Spark."""
        folder = local_folder(detail.location)
        if folder is None and not storage_options:
            return f"storage-options are not given, and it is in {urlsplit(detail.location).scheme or 'a catalog'}"
        if folder is not None and not is_known_to_delta_rs(folder):
            return "its path has characters that delta-rs does not take"
        try:
            import deltalake  # noqa: F401
        except ImportError:
            return "the package deltalake is missing"
        found = cls(table, detail, storage_options)
        try:
            handle = found._open()
        except LogError as error:
            return f"delta-rs cannot read it: {error}"
        if handle is None or str(handle.metadata().id) != detail.table_id:
            return "this process does not see its files"
        if (reason := why_not(handle, detail)) is not None:
            return reason
        found._handle, found._mark = handle, mark_of(handle)
        return found

    def place(self, schema: pa.Schema) -> Place:
        """Where tasks write rows with these columns."""
        indexed = int(self._detail.properties.get(INDEXED, INDEXED_COLUMNS))
        return Place(self.uri, schema, tuple(self._detail.partition_by), indexed, self._options)

    def detail(self) -> TableDetail | None:
        """As of the last look, which a commit is made on; None if there is no table."""
        if self._handle is None:
            self._read(1)
        if self._handle is None:
            return None
        return self._detail if mark_of(self._handle) == self._mark else self._table.detail()

    def history(self, limit: int) -> list[Commit]:
        """As SparkTable.history."""
        return [one.commit for one in self._read(limit)]

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        """As SparkTable.removing."""
        return self._table.removing(versions, location)

    def last_number(self, transaction_id: str, _: TableDetail) -> int:
        """As SparkTable.last_number."""
        with self._explained():
            return (self._handle.transaction_version(transaction_id) or 0) if self._handle is not None else 0

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

        handle = self._handle
        with self._explained():
            is_same = handle is not None and mark_of(handle) == self._mark and self._is_same()
        if handle is None or not is_same:
            raise TableChanged
        properties = CommitProperties(max_commit_retries=_RETRIES)
        if record is not None:
            # delta-rs refuses only what came since the handle's version.
            if record.based_on is not None and record.based_on != handle.version():
                raise LogError(f"{self.where} was looked at since what the commit is based on", is_conflict=True)
            with self._explained():
                taken = handle.transaction_version(record.transaction_id)
            if taken is not None and taken >= record.sequence:
                raise LogError(f"{self.where} has a commit of number {taken}, and this is one", is_conflict=True)
            properties = CommitProperties(
                custom_metadata={"userMetadata": record.to_json()},
                app_transactions=[Transaction(record.transaction_id, record.sequence)],
                max_commit_retries=_RETRIES,
            )
        added: list[AddAction | RemoveAction] = [
            AddAction(one.path, one.size, one.partition_values, one.modified_ms, True, one.stats) for one in files
        ]
        with self._explained():
            handle.create_write_transaction(
                added, "append", handle.schema(), list(self._detail.partition_by), commit_properties=properties
            )

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether rows may be gone that its files have."""
        self._read(1)
        handle = self._handle
        return handle is None or "deletionVectors" in (handle.protocol().reader_features or ())

    def query(self, sql: str, *values: str | int) -> dict[str, list[Any]]:
        """The rows that DataFusion finds in the table `log`, by column; each {} in the SQL is one of the values."""
        import pyarrow as pa
        from deltalake import QueryBuilder

        self._read(1)
        assert self._handle is not None
        with self._explained():
            texts = (str(one).replace("'", "''") for one in values)
            # pyarrow pulls the rows: deltalake's own read_all() blocks all threads of the process meanwhile.
            found = QueryBuilder().register("log", self._handle).execute(sql.format(*texts))
            rows: dict[str, list[Any]] = pa.RecordBatchReader.from_stream(found).read_all().to_pydict()
            return rows

    def _read(self, limit: int) -> Sequence[_Entry]:
        """The last commits, newest first; of the table that is there now. TableChanged: its name is another table's."""
        if self._table.is_named and time.monotonic() - self._named_at > _ASK_AGAIN_SECONDS:
            self._named_at, now = time.monotonic(), self._table.detail()
            if now is None or (now.table_id, now.location) != (self._detail.table_id, self._detail.location):
                raise TableChanged
        with self._explained():
            if self._handle is not None:
                try:
                    self._handle.update_incremental()
                except Exception:  # its versions are gone: another table, or none, is there
                    self._handle = None
            if not self._is_same():
                self._handle, self._entries = None, {}
            if self._handle is None:
                self._handle = self._open()
            found = [] if self._handle is None else list(self._last(self._handle.version(), limit))
            if self._handle is not None and not found:
                raise LogError(
                    f"the newest commit of {self.where} is gone from its log, and a checkpoint is left. Copy the rows"
                    " into a new table, or remove it"
                )
        self._tidy(self._newest, found)
        self._newest = found[0] if found else None
        if not found:
            self._handle = None
        self._entries = {one.version: one for one in found[:_MOST_ENTRIES]}
        return found

    def _is_same(self) -> bool:
        """Whether the newest commit of the last look is still there: otherwise another table is."""
        return self._newest is None or self._entry(self._newest.version) == self._newest

    def _last(self, version: int, limit: int) -> Iterator[_Entry]:
        """The commits up to `version`, as far as the log has them."""
        for number in range(version, max(-1, version - limit), -1):
            found = self._entries.get(number) or self._entry(number)
            if found is None:
                return
            yield found

    def _entry(self, version: int) -> _Entry | None:
        """A commit; None if it is gone from the log. Read here: delta-rs refuses what Spark writes of a clone, and
        blocks all threads of the process meanwhile."""
        try:
            with self._log.open_input_stream(f"_delta_log/{version:020}.json") as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError:
            return None
        actions = map(json.loads, lines)
        return _Entry(version, next((one["commitInfo"] for one in actions if "commitInfo" in one), {}), self.where)

    def _tidy(self, before: _Entry | None, found: Sequence[_Entry]) -> None:
        """Write a checkpoint of the log and ask for upkeep, if it is time for that since the last look."""
        if before is None or not found or self._handle is None:
            return

        def is_due(commits: int) -> bool:
            return found[0].version // commits > before.version // commits

        properties = self._detail.properties
        if "delta.checkpointInterval" not in properties and is_due(_CHECKPOINT_COMMITS):  # otherwise delta-rs does
            with contextlib.suppress(Exception):  # the next look only takes longer
                self._handle.create_checkpoint()
        if properties.get("delta.autoOptimize.autoCompact", "").lower() != "false" and is_due(UPKEEP_COMMITS):
            self._table.ask_for_upkeep()

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with self._explained():
            try:
                return DeltaTable(self.uri, storage_options=self._options or None)
            except TableNotFoundError:
                return None

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        from deltalake.exceptions import CommitFailedError

        try:
            yield
        except LogError:
            raise
        except Exception as error:  # also plain Exception: delta-rs raises it for a missing file
            text = f"delta-rs cannot use {self.where}: {scrub(str(error), self._options, self.uri)}"
            raise LogError(text, is_conflict=isinstance(error, CommitFailedError)) from None


_ASK_AGAIN_SECONDS: Final = 600.0
"""How often to ask where a name's table is, which takes Spark a second or two."""
_CHECKPOINT_COMMITS: Final = 10
"""Spark's; delta-rs waits for a hundred, and until then each look and commit takes longer: 12 ms a commit, not 6."""
_MOST_ENTRIES: Final = 100
_RETRIES: Final = 200
"""How often a commit is tried while other writers are faster."""


@dataclass(frozen=True)
class _Entry:
    """A commit of the table at `where`, with its `commitInfo` as the log has it."""

    version: int
    info: Mapping[str, Any]
    where: str

    @cached_property
    def commit(self) -> Commit:
        """Parsed once: each look asks for the last ones again. ConfigurationError as Commit.of."""
        parameters = {
            name: value if value is None or isinstance(value, str) else json.dumps(value)
            for name, value in (self.info.get("operationParameters") or {}).items()
        }
        written = datetime.fromtimestamp(int(self.info.get("timestamp") or 0) / 1000, UTC)
        own = {"version": self.version, "operationParameters": parameters, "timestamp": written}
        return Commit.of({**self.info, **own}, self.where)
