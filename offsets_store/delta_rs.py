"""The offsets table through delta-rs: commits in milliseconds, without a SparkSession.

deltalake is imported when a table is opened: the library has 130 MB, and a query without an offsets table does not need
it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from offsets_store.errors import OffsetsTableError, SchemaMismatch, scrub
from offsets_store.progress import GroupKey, transaction_id
from offsets_store.rows import Row, checked, rows_from_arrow, rows_to_arrow
from offsets_store.run import Conflict
from offsets_store.schema import PARTITION_COLUMN, TABLE_PROPERTIES, arrow_schema, check_schema
from tubeclient.names import GroupName
from tubeclient.printable import display_uri

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties

_log = logging.getLogger(__name__)

UPKEEP_COMMITS: Final = 50
"""Maintenance is due at each multiple of this version number; the writer that passes it runs it."""
# A thread that returns from native code after the interpreter is gone crashes the process.
_EXIT_SECONDS: Final = 10.0

# By default delta-rs gives up after three minutes. That is too long for a planner that holds up a query. The user's
# values win.
_REMOTE_LIMITS: Final = {"connect_timeout": "5s", "timeout": "20s", "max_retries": "3", "retry_timeout": "30s"}

_RETRIES: Final = 200
"""How often a commit is tried while writers of other groups are faster."""

_NOT_IN_PATHS: Final = re.compile(r"[\[\]^|]|%[0-9A-Fa-f]{2}")
"""With some of them delta-rs panics. With a percent sign before two digits it writes one folder and reads another."""


class _Seen(NamedTuple):
    """A group's rows at one version of the table; `version` is None if there is no table."""

    consumer_group: GroupName
    version: int | None
    rows: list[Row]
    sequence: int | None
    """The group's last, by the Delta transactions."""


class DeltaRsStorage:
    """The Delta table at `uri`; the first write creates it. `Storage` documents the methods.

    It remembers what it read or wrote last. If nobody else wrote since, a commit reads nothing.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(storage_options)
        self._table: DeltaTable | None = None
        self._seen: _Seen | None = None
        self._mark: tuple[int, int] | None = None
        self._upkeep: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"DeltaRsStorage({display_uri(self._uri)!r})"

    def rows(self, consumer_group: GroupName) -> list[Row]:
        with self._explained("read"):
            table = self._newest()
            version = None if table is None else table.version()
            if self._seen is None or self._seen[:2] != (consumer_group, version):
                rows = [] if table is None else checked(_rows_of(table, consumer_group))
                sequence = None if table is None else table.transaction_version(transaction_id(consumer_group))
                self._seen = _Seen(consumer_group, version, rows, sequence)
        return list(self._seen.rows)

    def transaction_version(self) -> int | None:
        return None if self._seen is None else self._seen.sequence

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        if self._seen is None or self._seen.consumer_group != key.consumer_group:
            raise Conflict("the group's rows were not read before this commit")
        # Replace the whole partition: to replace single rows, delta-rs would read and compare the old ones.
        written = [*rows, *(row for row in self._seen.rows if not row.belongs_to(key))]
        with self._explained("write"):
            table = self._table or self._create()
            if self._table is None:
                self._table = table
                if table.version() > 0:
                    raise Conflict("another writer created the table at the same moment")
            before = table.version()
            self._commit(table, key, written, sequence)
            after = table.version()
            self._mark = self._mark_of(table)
        self._seen = _Seen(key.consumer_group, after, written, sequence)
        if before // UPKEEP_COMMITS != after // UPKEEP_COMMITS:
            self._begin_upkeep()

    def _commit(self, table: DeltaTable, key: GroupKey, written: Sequence[Row], sequence: int) -> None:
        """Replace the group's rows by `written`. Conflict if another writer's came first."""
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError

        newest = table.version()
        try:
            write_deltalake(
                table,
                rows_to_arrow(written),
                mode="overwrite",
                predicate=_of_group(key.consumer_group),
                commit_properties=_properties(key, sequence),
                post_commithook_properties=_no_hooks(),
            )
        except CommitFailedError as error:
            self._seen = None
            table.update_incremental()
            if table.version() == newest:
                raise  # nobody else committed: this table cannot be written
            # Some stores report a commit as failed although it succeeded. The retry then loses against the first try.
            if set(_rows_of(table, key.consumer_group)) != set(written):
                raise Conflict(self._scrub(error)) from None

    def maintain(self, retention_hours: int | None) -> int:
        with self._explained("clean up"):
            table = self._open()
            if table is None:
                return 0
            table.create_checkpoint()
            table.cleanup_metadata()

            def vacuum(*, dry_run: bool, full: bool) -> list[str]:
                return table.vacuum(
                    retention_hours=retention_hours,
                    dry_run=dry_run,
                    enforce_retention_duration=retention_hours is None,
                    full=full,
                    post_commithook_properties=_no_hooks(),
                )

            # "full": tombstones past their retention have left the log, so only listing the folder finds their files.
            # It takes each file there for one of the table's, also those of a table or a checkpoint in that folder.
            foreign = [name for name in vacuum(dry_run=True, full=True) if not name.startswith(f"{PARTITION_COLUMN}=")]
            if foreign:
                _log.warning(
                    "the folder of the offsets table at %s also has other files, such as %s. A VACUUM of the table "
                    "would delete them; move either to another folder. Until then some of the table's old files are "
                    "not cleaned up",
                    display_uri(self._uri),
                    min(foreign),
                )
            return len(vacuum(dry_run=False, full=not foreign))

    def wait_for_upkeep(self, seconds: float = _EXIT_SECONDS) -> bool:
        """Wait so long for maintenance in the background; returns whether there is none any more."""
        if self._upkeep is not None:
            self._upkeep.join(seconds)
        return self._upkeep is None or not self._upkeep.is_alive()

    def _begin_upkeep(self) -> None:
        """Maintain the table in a background thread, one at a time. No writer waits for it."""
        if self._upkeep is not None and self._upkeep.is_alive():
            return
        if self._upkeep is None:
            atexit.register(self.wait_for_upkeep)

        def work() -> None:
            try:  # with a handle of its own, because this one belongs to the writing thread
                DeltaRsStorage(self._uri, self._options).maintain(None)
            except OffsetsTableError as error:
                _log.warning(
                    "could not clean up the offsets table; commits continue, with another try after %d commits: %s",
                    UPKEEP_COMMITS,
                    error,
                )

        self._upkeep = threading.Thread(target=work, name="offsets-table-upkeep", daemon=True)
        self._upkeep.start()

    def exists(self) -> bool:
        with self._explained("read"):
            return self._open() is not None

    def groups(self) -> list[str]:
        """The groups that have rows, sorted; [] if there is no table."""
        with self._explained("read"):
            table = self._open()
            found = [] if table is None else table.partitions()
            return sorted({name for partition in found if (name := partition[PARTITION_COLUMN]) is not None})

    def _newest(self) -> DeltaTable | None:
        if self._table is None or self._mark_of(self._table) != self._mark:
            self._seen = None  # of another table, whose version may be the same
            self._table = self._open()
        elif self._may_have_moved(self._table):
            self._table.update_incremental()
        self._mark = self._mark_of(self._table)
        return self._table

    def _mark_of(self, table: DeltaTable | None) -> tuple[int, int] | None:
        """Identifies a table on a local disk: a table that replaced it has a different log file for this version.

        None if the log was shortened past this version.
        """
        folder = _local_folder(self._uri)
        if folder is None or table is None:
            return None
        try:
            found = _entry(folder, table.version()).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _may_have_moved(self, table: DeltaTable) -> bool:
        """Whether there may be a newer version. On a local disk this needs no listing of the log's folder."""
        folder = _local_folder(self._uri)
        return folder is None or _entry(folder, table.version() + 1).exists()

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        folder, place = _local_folder(self._uri), display_uri(self._uri)
        if folder is not None and (strange := _NOT_IN_PATHS.search(str(folder.absolute()))):
            raise OffsetsTableError(
                f"an offsets table cannot be at {place}: delta-rs accepts no path with {strange[0]}; name another "
                "folder"
            )
        if folder is not None and folder.is_file():
            raise SchemaMismatch(f"{place} is a file; name a new or empty folder as the offsets table")
        try:
            table = DeltaTable(self._uri, storage_options=self._effective_options())
        except TableNotFoundError as error:
            if folder is None and "scheme" in str(error):
                raise
            if folder is not None and folder.exists() and not _is_free(folder):
                raise SchemaMismatch(
                    f"{place} is neither a Delta table nor empty; name a new or empty folder as the offsets table"
                ) from None
            return None
        self._check_schema(table)
        return table

    def _create(self) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            DeltaTable.create(
                self._uri,
                arrow_schema(),
                mode="ignore",
                partition_by=[PARTITION_COLUMN],
                configuration=TABLE_PROPERTIES,
                storage_options=self._effective_options(),
                description="Offsets of TubeMQ consumer groups",
            )
        except DeltaError:
            # Another run may have created it at the same moment.
            if (table := self._open()) is None:
                raise
        else:
            table = DeltaTable(self._uri, storage_options=self._effective_options())
            self._check_schema(table)
        return table

    def _check_schema(self, table: DeltaTable) -> None:
        found = {field.name: getattr(field.type, "type", "") for field in table.schema().fields}
        check_schema(found, table.metadata().partition_columns, display_uri(self._uri))

    def _effective_options(self) -> dict[str, str] | None:
        if _local_folder(self._uri) is not None:
            return self._options or None
        named = {name.lower() for name in self._options}
        return {**{name: value for name, value in _REMOTE_LIMITS.items() if name not in named}, **self._options}

    def _scrub(self, error: BaseException) -> str:
        return scrub(str(error), self._options, self._uri)

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            yield
        except (OffsetsTableError, Conflict):
            raise
        except ImportError as error:
            raise OffsetsTableError(
                f"an offsets table needs the package {error.name}; install it with pip install "
                f"'pyspark-tubeclient[delta]', or [managed] to leave your Spark alone: {error}"
            ) from None
        except Exception as error:  # also plain Exception: delta-rs raises it for a missing file
            # The handle may be between two versions.
            self._table = None
            self._seen = None
            # No "from error": its text may hold values of the storage options.
            raise OffsetsTableError(
                f"could not {action} the offsets table at {display_uri(self._uri)}: {type(error).__name__}:"
                f" {self._scrub(error)}. Check the path, the storage options and the write permission"
            ) from None


def _is_free(folder: Path) -> bool:
    """Whether a table may be created in this folder, which has no table. A folder with only a log is being created by
    another process."""
    return folder.is_dir() and all(entry.name == "_delta_log" for entry in folder.iterdir())


def _rows_of(table: DeltaTable, consumer_group: GroupName) -> list[Row]:
    """The group's rows in the version that `table` has loaded."""
    import pyarrow as pa
    from deltalake import QueryBuilder

    # Not DeltaTable.to_pyarrow_table: its reader threads abort one process in ten at exit (deltalake 1.6.6).
    query = f"SELECT * FROM offsets WHERE {_of_group(consumer_group)}"  # noqa: S608 - the name is quoted, and only read
    # pyarrow pulls the rows: deltalake's own read_all() blocks all threads of the process while a store is slow.
    found = pa.RecordBatchReader.from_stream(QueryBuilder().register("offsets", table).execute(query)).read_all()
    return rows_from_arrow(found)


def _properties(key: GroupKey, sequence: int) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    # It fences all runs of the group, whatever their topics: delta-rs refuses a commit if another used it since.
    return CommitProperties(
        app_transactions=[Transaction(transaction_id(key.consumer_group), sequence)], max_commit_retries=_RETRIES
    )


def _no_hooks() -> PostCommitHookProperties:
    """By default delta-rs writes a checkpoint and cleans up in every hundredth commit, and the writer waits for it."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def _of_group(consumer_group: GroupName) -> str:
    name = consumer_group.replace("'", "''")
    return f"\"{PARTITION_COLUMN}\" = '{name}'"  # unquoted, the column would be lower-cased


def _local_folder(uri: str) -> Path | None:
    """The local folder that `uri` names; None for any other kind of storage."""
    if "://" not in uri:
        return Path(uri)
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _entry(folder: Path, version: int) -> Path:
    """The file of the commit that made this version of the table in `folder`."""
    return folder / "_delta_log" / f"{version:020}.json"
