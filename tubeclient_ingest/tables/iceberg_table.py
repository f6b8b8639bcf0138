"""The job's Iceberg table, through pyiceberg and its catalog: what the sink asks of it. Tasks write the files.

Each commit adds a snapshot whose summary has the group's record, and in the same commit a property with the group's
number. The catalog refuses it unless the branch `main` is still at the snapshot of the last look, and the table has the
same schema and partitions. So nobody else's commit can be overlooked, whoever wrote it.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from offsets_store.errors import scrub
from spark_source.options.table_uris import limited
from spark_source.read.schema import arrow_types
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient.flows.effects import backoff_ms
from tubeclient_ingest.commits.beginning import TableChanged
from tubeclient_ingest.commits.history import Commit
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.tables.data_files import DataFile, DataFiles, FileDestination
from tubeclient_ingest.tables.iceberg_catalog import open_catalog, own_properties, secrets_in
from tubeclient_ingest.tables.iceberg_files import PARTITIONS, SPARKS_PARTITIONS, added, small
from tubeclient_ingest.tables.iceberg_history import RECORD, commits_of
from tubeclient_ingest.tables.spark_errors import LogError
from tubeclient_ingest.tables.table_detail import TableDetail, local_folder
from tubeclient_ingest.tables.target_columns import check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["IcebergTable"]

_TRIES: Final = 200
"""How often a commit without a record is tried while other writers are faster."""
_NEW: Final = {
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""Properties of tables that the job makes: otherwise each round leaves a manifest and a file of metadata for good."""


def _identifier(identifier: str) -> tuple[str, ...]:
    """The parts of a table's name, which may be in backquotes."""
    parts = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", identifier)
    return tuple(quoted.replace("``", "`") or plain for quoted, plain in parts)


class IcebergTable:
    """The table `identifier`: the name of pyiceberg's catalog, of namespaces and the table; with a `warehouse` folder,
    the name begins with the namespace. Errors are LogError and ConfigurationError."""

    is_named: Final = True

    def __init__(
        self, spark: SparkSession | None, identifier: str, warehouse: str | None, options: Mapping[str, str]
    ) -> None:
        """`options` are delta-rs's, by which tasks reach the table's storage. Without Spark no rows are read."""
        with brought_by("iceberg"):
            import pyiceberg.catalog  # noqa: F401
        self._spark, self._warehouse, self._options = spark, warehouse, options
        self.where = identifier
        parts = _identifier(identifier)
        self._catalog_name, self._name = ("default", parts) if warehouse is not None else (parts[0], parts[1:])
        self._handle: Table | None = None
        """The table as of the last look; None if there was none."""
        self._mark: object = None
        """What must stay the same for files that tasks write."""
        self._main: int | None = None
        """The snapshot of `main` at the last look at what happened. Set back, it may have a version that it had."""
        self._tried = -1
        """The snapshot of the last commit that was tried."""

    # What the table is

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Within it errors of pyiceberg, of its catalog and of storage are LogErrors."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        try:
            yield
        except (LogError, ConfigurationError, TableChanged):
            raise
        except Exception as error:  # of SQLAlchemy, requests, Arrow and others
            is_conflict = isinstance(error, (CommitFailedException, ValidationException))
            text = f"pyiceberg cannot use {self.where}: {scrub(str(error).split(chr(10))[0], self._secrets())}"
            if self._warehouse is None and not is_conflict:
                text = text.rstrip(".") + (
                    f". Check that the catalog {self._catalog_name} and its storage answer, and how .pyiceberg.yaml "
                    "or the environment configures them"
                )
            raise LogError(text, is_conflict=is_conflict) from None

    def _secrets(self) -> Mapping[str, str]:
        """Also what a catalog handed out for the table."""
        own = {} if self._warehouse is not None else own_properties(self._catalog_name)
        found = {} if self._handle is None else self._handle.io.properties
        return {**self._options, **secrets_in(own), **secrets_in(found)}

    def _catalog_there(self) -> Catalog:
        try:
            return open_catalog(self._warehouse, self._catalog_name)
        except ValueError:
            if own_properties(self._catalog_name):
                raise
            raise ConfigurationError(
                f"the name {self.where} must begin with a catalog, but pyiceberg does not know {self._catalog_name}. "
                "Configure it in .pyiceberg.yaml or the environment, with type and uri, or set warehouse"
            ) from None

    def _load(self) -> Table | None:
        """The table as it is now."""
        from pyiceberg.exceptions import NoSuchTableError

        with self._explained():
            try:
                self._handle = self._catalog_there().load_table(self._name)
            except NoSuchTableError:
                self._handle = None
        return self._handle

    def detail(self) -> TableDetail | None:
        """What it is now; None if there is no table. ConfigurationError for one that the job cannot write."""
        if (handle := self._load()) is None:
            return None
        with self._explained():
            return self._detail(handle)

    def _detail(self, handle: Table) -> TableDetail:
        from pyspark.sql.pandas.types import from_arrow_schema

        found = handle.metadata
        if found.format_version != 2:
            raise ConfigurationError(
                f"{self.where} has Iceberg's format version {found.format_version}, but the job writes version 2"
            )
        schema = handle.schema()
        for field in handle.spec().fields:
            kind = str(schema.find_type(field.source_id))
            if str(field.transform) != "identity" or kind not in PARTITIONS:
                raise ConfigurationError(
                    f"{self.where} is partitioned by {field.transform} of "
                    f"{schema.find_column_name(field.source_id)}, {kind}; the job writes tables that are partitioned "
                    f"by unchanged columns, of the types {', '.join(PARTITIONS)}"
                )
        columns = from_arrow_schema(schema.as_arrow(), prefer_timestamp_ntz=True)
        return TableDetail(str(found.table_uuid), handle.location(), columns, dict(found.properties))

    @staticmethod
    def stored(columns: StructType) -> StructType:
        """Columns as Iceberg stores them: its smallest whole number is INT."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(columns.json(), object_hook=_wider))

    def create(
        self,
        columns: StructType,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> TableDetail:
        """Make the table, unless it is there."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        if lacking := ", ".join(name for name in partition_by if name not in columns.names):
            raise ConfigurationError(f"partition-by names {lacking}; the rows have {', '.join(columns.names)}")
        kinds = {column.name: column.dataType.typeName() for column in columns}
        if wrong := [
            f"{name}, which is {kinds[name]}" for name in partition_by if kinds[name] not in SPARKS_PARTITIONS
        ]:
            raise ConfigurationError(
                f"partition-by names {wrong[0]}; Iceberg tables can be partitioned by {', '.join(SPARKS_PARTITIONS)}"
            )
        schema = arrow_types(columns)
        with self._explained(), contextlib.suppress(TableAlreadyExistsError):
            catalog = self._catalog_there()
            catalog.create_namespace_if_not_exists(self._name[:-1])
            with catalog.create_table_transaction(self._name, schema, properties={**_NEW, **properties}) as made:
                if partition_by:
                    with made.update_spec() as spec:
                        for name in partition_by:
                            spec.add_identity(name)
        found = self.detail()
        if found is None:
            raise ConfigurationError(f"the table {self.where} was removed as soon as it was made; start again")
        return found

    def open_files(self) -> None:
        """From now on a commit of files wants the table as the last look found it."""
        assert self._handle is not None
        self._mark = _mark_of(self._handle.metadata)

    def destination(self, schema: pa.Schema) -> FileDestination:
        """Where tasks write rows with these columns."""
        import pyarrow as pa
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        assert self._handle is not None
        table = self._handle.schema()
        names = set(schema.names)
        typed = pa.schema([small(field) for field in schema_to_pyarrow(table) if field.name in names])
        split = tuple(table.find_column_name(field.source_id) or "" for field in self._handle.spec().fields)
        if lacking := ", ".join(name for name in split if name not in names):
            raise ConfigurationError(f"the rows lack {lacking}, which partitions {self.where}")
        location = self._handle.location()
        uri, options = local_folder(location) or location, limited(location, self._options)
        return FileDestination(uri, typed, split_by=split, is_iceberg=True, storage_options=options)

    # What happened to it

    def history(self, limit: int) -> list[Commit]:
        """As SparkTable.history; the table's making is its first commit."""
        handle = self._load()
        if handle is None:
            return []
        self._main = handle.metadata.current_snapshot_id
        with self._explained():
            return list(islice(commits_of(handle.metadata, self.where), limit))

    @staticmethod
    def removing(versions: Collection[int], location: str) -> set[int]:
        """As SparkTable.removing: no more than the snapshots say."""
        return set(versions)

    def last_number(self, transaction_id: str, _: TableDetail) -> int:
        """As SparkTable.last_number."""
        handle = self._handle
        return 0 if handle is None else int(handle.metadata.properties.get(transaction_id, 0))

    # What the job does to it

    def append(self, rows: DataFrame | None, record: SinkRecord | None = None, *, evolve: bool = False) -> None:
        """As SparkTable.append: rows of which there are few."""
        if rows is None:
            self.commit((), record)
            return
        detail = self.detail()
        if detail is None:
            raise TableChanged
        columns = self.stored(rows.schema)
        check_columns(detail.columns, columns, self.where, evolve=evolve)
        if evolve:
            with self._explained(), self._there().update_schema(case_sensitive=False) as change:
                change.union_by_name(arrow_types(columns))
            self._load()
        self.open_files()
        files = DataFiles(self.destination(arrow_types(columns)))
        if (found := rows.toArrow()).num_rows:
            files.add(found)
        self.commit(files.close(), record)

    def commit(self, files: Sequence[DataFile], record: SinkRecord | None = None) -> None:
        """As LogTable.commit."""
        for tries in range(_TRIES):
            try:
                self._commit(files, record)
                return
            except LogError as error:
                if record is not None or not error.is_conflict or tries == _TRIES - 1:
                    raise
            time.sleep(backoff_ms(min(tries, 5), random.random()) / 1000)
            handle = self._load()
            # A catalog's client may repeat a request whose answer was lost, and that is refused then.
            if handle is not None and handle.snapshot_by_id(self._tried) is not None:
                return

    def _commit(self, files: Sequence[DataFile], record: SinkRecord | None) -> None:
        from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId, AssertTableUUID

        handle = self._handle
        if handle is None or _mark_of(handle.metadata) != self._mark:
            raise TableChanged
        found = handle.metadata
        properties: dict[str, str] = {}
        with self._explained():
            made = _slim(handle).transaction()
            if record is not None:
                newest = next(commits_of(found, self.where)).version
                is_same = found.current_snapshot_id == self._main and record.based_on in (None, newest)
                if not is_same:
                    raise LogError(
                        f"{self.where} was read again after the state that the commit is based on", is_conflict=True
                    )
                taken = int(found.properties.get(record.transaction_id, 0))
                if taken >= record.sequence:
                    raise LogError(
                        f"{self.where} already has a commit with number {taken}, which this commit does not exceed",
                        is_conflict=True,
                    )
                properties = {RECORD: record.to_json()}
                made.set_properties({record.transaction_id: str(record.sequence)})
            append = made.update_snapshot(snapshot_properties=properties).merge_append()
            self._tried = append.snapshot_id
            for file in files:
                append.append_data_file(added(handle, file))
            updates, requirements = append._commit()
            same = (
                AssertTableUUID(uuid=found.table_uuid),
                AssertCurrentSchemaId.model_validate({"current-schema-id": found.current_schema_id}),
                AssertDefaultSpecId.model_validate({"default-spec-id": found.default_spec_id}),
            )
            # Not commit_transaction: that puts the snapshot on top of what others committed meanwhile.
            handle._do_commit(updates=(*made._updates, *updates), requirements=(*requirements, *same))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """As SparkTable.set_properties."""
        if properties:
            with self._explained(), self._there().transaction() as change:
                change.set_properties(dict(properties))

    def delete(self, where: str) -> None:
        """Delete the rows for which this SQL is true."""
        with self._explained(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Delete operation did not match any records")
            self._there().delete(where)

    def rows(self, where: str = "true") -> DataFrame:
        """The rows that are there now, for which this SQL is true: all of them in this process."""
        with self._explained():
            found = self._there().scan(row_filter=where).to_arrow()
        assert self._spark is not None
        return self._spark.createDataFrame(found)

    def read_ahead(self) -> None:
        """Nothing has to be read before the next commit."""

    def _there(self) -> Table:
        if (found := self._load()) is None:
            raise TableChanged
        return found


def _wider(kind: dict[str, Any]) -> dict[str, Any]:
    names = ("type", "elementType", "keyType", "valueType")
    return {name: "integer" if name in names and value in ("byte", "short") else value for name, value in kind.items()}


def _slim(handle: Table) -> Table:
    """The table with its newest snapshot alone. pyiceberg copies all of them a dozen times to make one more."""
    from pyiceberg.table import Table

    found = handle.metadata
    newest = [snapshot for snapshot in found.snapshots if snapshot.snapshot_id == found.current_snapshot_id]
    metadata = found.model_copy(update={"snapshots": newest, "snapshot_log": [], "metadata_log": []})
    return Table(handle.name(), metadata, handle.metadata_location, handle.io, handle.catalog, handle.config)


def _mark_of(found: TableMetadata) -> object:
    return found.table_uuid, found.current_schema_id, found.default_spec_id, found.location
