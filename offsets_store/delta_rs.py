"""The offsets table through delta-rs: commits in milliseconds, without a SparkSession.

The only module that imports deltalake, and only when a table is really opened: 130 MB of library are of no use to
whoever keeps no offsets.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from offsets_store.delta_form import check_schema, rows_from_arrow, rows_to_arrow
from offsets_store.errors import OffsetsTableError, VersionGone, display_uri, scrub
from offsets_store.history import TableCommit
from offsets_store.local_log import entry_path, shorten
from offsets_store.progress import GroupKey
from offsets_store.rows import Row
from offsets_store.schema import PARTITION_COLUMN, TABLE_PROPERTIES, arrow_schema
from offsets_store.storage import Conflict
from offsets_store.upkeep import Upkeep

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties

__all__ = ["DeltaRsStorage"]

# Delta's names of types where Spark's DDL has others.
_DDL_TYPES: Final = {"integer": "int", "long": "bigint"}

_WEEK_HOURS: Final = 168
_NEWEST_WRITER: Final = 7
"""Of the Delta protocol; from there on features are named one by one, and delta-rs knows which it has."""

# delta-rs gives up after three minutes by itself, too long for a planner that holds up a query. The user's values win.
_REMOTE_LIMITS: Final = {"connect_timeout": "5s", "timeout": "20s", "max_retries": "3", "retry_timeout": "30s"}


# What `replace` writes, as the log repeats it.
_OWN_PREDICATE: Final = re.compile(rf"\"{PARTITION_COLUMN}\" = '((?:[^']|'')*)'")


class _Seen(NamedTuple):
    """What the table holds of one group at one version; None is the version of a table that is not there."""

    consumer_group: str
    version: int | None
    rows: list[Row]


class DeltaRsStorage:
    """The Delta table at `uri`, which need not exist before the first write; `Storage` says what each method does.

    What was read or written last is remembered: where nobody else wrote, a commit reads nothing.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(storage_options)
        self._table: DeltaTable | None = None
        self._seen: _Seen | None = None
        self._sequences: dict[str, int | None] = {}
        self._mark: tuple[int, int] | None = None
        # With a handle of its own: this one belongs to the thread that writes.
        self.upkeep = Upkeep(lambda: DeltaRsStorage(uri, storage_options).maintain(None), display_uri(uri))

    def __repr__(self) -> str:
        return f"DeltaRsStorage({display_uri(self._uri)!r})"

    def rows(self, consumer_group: str) -> list[Row]:
        with self._explained("read"):
            table = self._newest()
            version = None if table is None else table.version()
            if self._seen is None or self._seen[:2] != (consumer_group, version):
                self._seen = _Seen(consumer_group, version, [] if table is None else _rows_of(table, consumer_group))
        return list(self._seen.rows)

    def transaction_version(self, key: GroupKey) -> int | None:
        with self._explained("read"):
            if self._table is not None and key.group_transaction_id not in self._sequences:
                self._sequences[key.group_transaction_id] = self._table.transaction_version(key.group_transaction_id)
        return self._sequences.get(key.group_transaction_id)

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError

        if self._seen is None or self._seen.consumer_group != key.consumer_group:
            raise Conflict("the group was not looked at before this commit")
        # The whole partition is replaced: to pick single rows, delta-rs would read and compare the old ones.
        written = [*rows, *(row for row in self._seen.rows if not row.belongs_to(key))]
        with self._explained("write"):
            table = self._table or self._create()
            if self._table is None:
                self._table = table
                if table.version() > 0:
                    raise Conflict("the table was made and written by somebody else in this moment")
            self._check_protocol(table)
            before = table.version()
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
                self._forget()
                table.update_incremental()
                if table.version() == before:
                    raise  # nobody was faster: this table cannot be written
                # A commit that a store took, and called failed, is sent again and loses against itself.
                if set(_rows_of(table, key.consumer_group)) != set(written):
                    raise Conflict(self._scrub(error)) from None
            after = table.version()
            self._mark = self._mark_of(table)
        if self._seen is not None:
            self._seen = _Seen(key.consumer_group, after, written)
            self._sequences[key.group_transaction_id] = sequence
        else:
            self._forget()
        self.upkeep.committed(before, after)

    def maintain(self, retention_hours: int | None) -> int:
        with self._explained("clean up"):
            table = self._open()
            if table is None:
                return 0
            table.create_checkpoint()
            folder = _local_folder(self._uri)
            # Other stores list a log from where they are told, and time alone may shorten it.
            gone = 0 if folder is None else shorten(folder, {uri.rpartition("/")[2] for uri in table.file_uris()})
            table.cleanup_metadata()
            # "full": tombstones older than the retention are gone from the log, their files must be found by listing.
            vacuumed = table.vacuum(
                retention_hours=_own_retention_hours(table) if retention_hours is None else retention_hours,
                dry_run=False,
                enforce_retention_duration=retention_hours is None,
                full=True,
                post_commithook_properties=_no_hooks(),
            )
        return gone + len(vacuumed)

    def commits(self, limit: int) -> list[TableCommit]:
        """The table's last commits, newest first, at most `limit`; [] where there is no table."""
        with self._explained("read the log of"):
            table = self._open()
            return [] if table is None else [_commit_of(entry) for entry in table.history(limit)]

    def rows_at(self, consumer_group: str, version: int) -> list[Row]:
        """The group's rows as of a version of the table. Raises VersionGone where that cannot be read any more."""
        with self._explained("read"):
            table = self._open()
            if table is None:
                raise VersionGone(display_uri(self._uri), version, newest=-1)
            newest = table.version()
            try:
                table.load_as_version(version)
                return _rows_of(table, consumer_group)
            except Exception as error:
                # Log entries that were cleaned up, and files, each show in ways of their own; what else may be wrong,
                # such as no access, is wrong with the newest version as well.
                table = self._open()
                if version == newest or table is None:
                    raise
                _rows_of(table, consumer_group)
                raise VersionGone(display_uri(self._uri), version, newest, self._scrub(error)) from None

    def _newest(self) -> DeltaTable | None:
        if self._table is None or self._mark_of(self._table) != self._mark:
            self._forget()
            self._table = None
            self._table = self._open()
        elif self._may_have_moved(self._table):
            before = self._table.version()
            self._table.update_incremental()
            if self._table.version() != before:
                self._forget()
        self._mark = self._mark_of(self._table)
        return self._table

    def _mark_of(self, table: DeltaTable | None) -> tuple[int, int] | None:
        """What a table on a local disk is known by: another one made in its place has another file of this version.

        None, too, where so many commits came since that the log was shortened.
        """
        folder = _local_folder(self._uri)
        if folder is None or table is None:
            return None
        try:
            found = entry_path(folder, table.version()).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _may_have_moved(self, table: DeltaTable) -> bool:
        """Whether there may be a newer version; on a local disk that is told without listing the log's folder."""
        folder = _local_folder(self._uri)
        return folder is None or entry_path(folder, table.version() + 1).exists()

    def _forget(self) -> None:
        self._seen = None
        self._sequences = {}

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        folder = _local_folder(self._uri)
        if folder is not None and folder.is_file():
            raise OffsetsTableError(f"{self._uri} is a file; name a new or empty folder as the offsets table")
        try:
            table = DeltaTable(self._uri, storage_options=self._effective_options())
        except TableNotFoundError as error:
            if folder is None and "scheme" in str(error):
                raise
            if folder is not None and folder.exists() and not _is_free(folder):
                raise OffsetsTableError(
                    f"{self._uri} is not a Delta table and not empty; name a new or empty folder as the offsets table"
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
            # Another run may have created it in this very moment; if so, it is there now.
            if (table := self._open()) is None:
                raise
        else:
            table = DeltaTable(self._uri, storage_options=self._effective_options())
            self._check_schema(table)
        return table

    def _check_schema(self, table: DeltaTable) -> None:
        types = {field.name: getattr(field.type, "type", "") for field in table.schema().fields}
        found = {name: _DDL_TYPES.get(type_name, type_name) for name, type_name in types.items()}
        check_schema(found, table.metadata().partition_columns, display_uri(self._uri))

    def _check_protocol(self, table: DeltaTable) -> None:
        """delta-rs itself looks at it when the data is written already."""
        needed = table.protocol().min_writer_version
        if needed > _NEWEST_WRITER:
            raise OffsetsTableError(
                f"could not write the offsets table at {display_uri(self._uri)}: its protocol asks for writer version"
                f" {needed}, and this release knows {_NEWEST_WRITER} at most; upgrade, or name another folder"
            )

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
                f"an offsets table needs the package deltalake, which the extra `delta` brings: {error}"
            ) from None
        except Exception as error:  # bare ones too: the query engine's, where a file is missing
            # The handle may be half way between two versions.
            self._table = None
            self._forget()
            # Not "from error": its text may hold what the storage options hold.
            raise OffsetsTableError(
                f"could not {action} the offsets table at {display_uri(self._uri)}: {type(error).__name__}:"
                f" {self._scrub(error)}. Check the path, the storage options, and that the place can be written"
            ) from None


def _is_free(folder: Path) -> bool:
    """Whether a table may be made in a folder that holds none. In one with nothing but a log, somebody is at it now."""
    return folder.is_dir() and all(entry.name == "_delta_log" for entry in folder.iterdir())


def _rows_of(table: DeltaTable, consumer_group: str) -> list[Row]:
    """The group's rows in the version that `table` stands at."""
    import pyarrow as pa
    from deltalake import QueryBuilder

    # Not DeltaTable.to_pyarrow_table: its reader threads abort one process in ten at exit (deltalake 1.6.6).
    query = f"SELECT * FROM offsets WHERE {_of_group(consumer_group)}"
    # pyarrow pulls the rows, as deltalake's own read_all() would hold up all threads of the process for a slow store.
    found = pa.RecordBatchReader.from_stream(QueryBuilder().register("offsets", table).execute(query)).read_all()
    return rows_from_arrow(found)


def _properties(key: GroupKey, sequence: int) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    # The second identity is the fence between all runs of the group, whatever their topics: delta-rs lets no commit
    # through that names an identity which another commit named since.
    identities = [key.transaction_id, key.group_transaction_id]
    return CommitProperties(
        app_transactions=[Transaction(identity, sequence) for identity in identities],
        custom_metadata={"sequence": str(sequence)},
    )


def _own_retention_hours(table: DeltaTable) -> int | None:
    """A week for a table as we make it; None, which is the table's own retention, for one that somebody set."""
    name = "delta.deletedFileRetentionDuration"
    return _WEEK_HOURS if table.metadata().configuration.get(name) == TABLE_PROPERTIES[name] else None


def _no_hooks() -> PostCommitHookProperties:
    """By itself delta-rs would write each hundredth commit's checkpoint, and clean up, while the committer waits."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def _of_group(consumer_group: str) -> str:
    return f"{_column(PARTITION_COLUMN)} = {_text(consumer_group)}"


def _commit_of(entry: Mapping[str, Any]) -> TableCommit:
    """A commit as the log tells it; other writers leave out what they like."""
    sequence = str(entry.get("sequence", ""))
    predicate = (entry.get("operationParameters") or {}).get("predicate")
    return TableCommit(
        version=entry["version"],
        committed_at=datetime.fromtimestamp(entry.get("timestamp", 0) / 1000, UTC),
        operation=str(entry.get("operation", "")),
        group=_group_of(predicate),
        sequence=int(sequence) if sequence.isdecimal() else None,
    )


def _group_of(predicate: str | None) -> str | None:
    """The group whose rows a commit of `replace` put in place of others; None for any other predicate."""
    found = _OWN_PREDICATE.fullmatch(predicate or "")
    return found[1].replace("''", "'") if found else None


def _column(name: str) -> str:
    """A column's name in SQL; without the quotes it would be taken in lower case."""
    return f'"{name}"'


def _text(value: str) -> str:
    """A string in SQL."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _local_folder(uri: str) -> Path | None:
    """The folder that `uri` names on this machine; None for every other kind of storage."""
    if "://" not in uri:
        return Path(uri)
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
