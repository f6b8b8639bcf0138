"""The offsets table through delta-rs: commits in milliseconds, without a SparkSession.

The only module that imports deltalake, and only when a table is really opened: 130 MB of library are of no use to
whoever keeps no offsets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from offsets_store.errors import OffsetsTableError, SchemaMismatch, display_uri, scrub
from offsets_store.progress import GroupKey
from offsets_store.rows import Row
from offsets_store.schema import COLUMNS, PARTITION_COLUMN, TABLE_PROPERTIES, arrow_schema
from offsets_store.storage import Conflict

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["DeltaRsStorage"]

_NAMES: Final = [column.name for column in COLUMNS]

# delta-rs gives up after three minutes by itself, too long for a planner that holds up a query. The user's values win.
_REMOTE_LIMITS: Final = {"connect_timeout": "5s", "timeout": "20s", "max_retries": "3", "retry_timeout": "30s"}


class DeltaRsStorage:
    """The Delta table at `uri`, which need not exist before the first write; `Storage` says what each method does."""

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = dict(storage_options)
        self._table: DeltaTable | None = None

    def __repr__(self) -> str:
        return f"DeltaRsStorage({display_uri(self._uri)!r})"

    def rows(self, consumer_group: str) -> list[Row]:
        with self._explained("read"):
            table = self._newest()
            if table is None:
                return []
            import pyarrow as pa
            from deltalake import QueryBuilder

            # Not DeltaTable.to_pyarrow_table: its reader threads abort one process in ten at exit (deltalake 1.6.6).
            query = f"SELECT * FROM offsets WHERE {_column(PARTITION_COLUMN)} = {_text(consumer_group)}"
            found = pa.table(QueryBuilder().register("offsets", table).execute(query).read_all())
        return list(map(Row._make, zip(*(found.column(name).to_pylist() for name in _NAMES), strict=True)))

    def transaction_version(self, key: GroupKey) -> int | None:
        with self._explained("read"):
            return None if self._table is None else self._table.transaction_version(key.transaction_id)

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        import pyarrow as pa
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError

        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
        data = pa.table(dict(zip(_NAMES, columns, strict=True)), schema=arrow_schema())
        # The second identity is the fence between runs that differ in their topics: delta-rs sees that their
        # predicates have no row in common and would let both through.
        identities = [key.transaction_id, f"tubeclient:{key.consumer_group}"]
        properties = CommitProperties(
            app_transactions=[Transaction(identity, sequence) for identity in identities],
            custom_metadata={"sequence": str(sequence)},
        )
        own_group = f"{_column(PARTITION_COLUMN)} = {_text(key.consumer_group)}"
        own_topics = f"{_column('topicSet')} = {_text(key.topic_set)}"
        with self._explained("write"):
            table = self._table or self._create()
            if self._table is None:
                self._table = table
                if table.version() > 0:
                    raise Conflict("the table was made and written by somebody else in this moment")
            try:
                write_deltalake(
                    table,
                    data,
                    mode="overwrite",
                    predicate=f"{own_group} AND {own_topics}",
                    commit_properties=properties,
                )
            except CommitFailedError as error:
                raise Conflict(self._scrub(error)) from None

    def maintain(self, retention_hours: int | None) -> int:
        with self._explained("clean up"):
            table = self._open()
            if table is None:
                return 0
            table.create_checkpoint()
            table.cleanup_metadata()
            # "full": tombstones older than the retention are gone from the log, their files must be found by listing.
            gone = table.vacuum(
                retention_hours=retention_hours,
                dry_run=False,
                enforce_retention_duration=retention_hours is None,
                full=True,
            )
        return len(gone)

    def _newest(self) -> DeltaTable | None:
        if self._table is None:
            self._table = self._open()
        else:
            self._table.update_incremental()
        return self._table

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            table = DeltaTable(self._uri, storage_options=self._effective_options())
        except TableNotFoundError as error:
            folder = _local_folder(self._uri)
            if folder is None and "scheme" in str(error):
                raise
            if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
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
        import pyarrow as pa

        found = {field.name: field.type for field in pa.schema(table.schema())}
        wrong = [c.name for c, field in zip(COLUMNS, arrow_schema(), strict=True) if found.get(c.name) != field.type]
        wrong += sorted(found.keys() - set(_NAMES))
        partitioned_by = table.metadata().partition_columns
        if wrong or partitioned_by != [PARTITION_COLUMN]:
            differ = ", ".join(wrong) or f"partition columns {partitioned_by}"
            raise SchemaMismatch(
                f"the Delta table at {display_uri(self._uri)} is not an offsets table of this release"
                f" (differing: {differ}); name a folder of its own as the offsets table"
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
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (OffsetsTableError, Conflict):
            raise
        except ImportError as error:
            raise OffsetsTableError(f"an offsets table needs the package deltalake: {error}") from None
        except (DeltaError, OSError, ValueError, _arrow_error()) as error:
            # The handle may be half way between two versions.
            self._table = None
            # Not "from error": its text may hold what the storage options hold.
            raise OffsetsTableError(
                f"could not {action} the offsets table at {display_uri(self._uri)}: {type(error).__name__}:"
                f" {self._scrub(error)}. Check the path, the storage options, and that the place can be written"
            ) from None


def _arrow_error() -> Any:
    import pyarrow as pa

    return pa.ArrowException


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
