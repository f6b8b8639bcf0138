"""The Parquet files of one table that one task writes, and what Delta is told of each.

A file has the rows of one partition of the table, lies in the partition's folder, and has a random name. A file of an
attempt that failed is in no commit; VACUUM removes it, as Spark's own.
"""

from __future__ import annotations

import base64
import io
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offsets_store.errors import scrub
from tubeclient_ingest.tables.file_statistics import INDEXED_COLUMNS, leaves, statistics
from tubeclient_ingest.tables.partition_values import folders

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["DataFile", "DataFiles", "FileDestination"]

_LIKE_SPARK: Final = {"org.apache.spark.version": "4.0.0"}
"""Of a file without it Spark takes days before 1582 for those of the calendar that a session names."""
_SAMPLE_ROWS: Final = 4_096


class DataFile(NamedTuple):
    """A file as an add action of Delta has it."""

    path: str
    """Within the table's folder."""
    size: int
    """In bytes."""
    partition_values: dict[str, str | None]
    modified_ms: int
    """ms since 1970."""
    stats: str
    """JSON."""
    footer: str = ""
    """The file's own, in base64, for a table of Iceberg's."""


@dataclass(frozen=True, slots=True)
class FileDestination:
    """Where a table's files go, and what is in them."""

    uri: str
    """A local folder, or a URI of a store that delta-rs knows."""
    schema: pa.Schema
    """Of the table's columns those that rows have, in its order."""
    partition_by: tuple[str, ...] = ()
    """Columns of which a file has one value each, which its folder says, and not the file."""
    indexed: int = INDEXED_COLUMNS
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    split_by: tuple[str, ...] = ()
    """Columns of which a file has one value each, in the file."""
    is_iceberg: bool = False

    def file_system(self) -> FileSystem:
        """The folder's. FileNotFoundError: there is no such local folder."""
        from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

        if "://" in self.uri:
            from deltalake.fs import DeltaStorageHandler

            return PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))
        if not Path(self.uri).is_dir():
            raise FileNotFoundError(f"the task that writes to the table does not find its folder, {self.uri}")
        return SubTreeFileSystem(self.uri, LocalFileSystem())

    def text_of(self, error: OSError) -> str:
        """What the storage said, in one line and without values of options; delta-rs says the cause in further ones."""
        text = scrub(str(error), self.storage_options)
        return f"{text} (tasks access the store with storage-options)" if "://" in self.uri else text


class DataFiles:
    """Writes rows into files. Holds them until `flush`."""

    def __init__(self, destination: FileDestination) -> None:
        self._destination = destination
        columns = [column for column in destination.schema if column.name not in destination.partition_by]
        self._split_by = destination.partition_by or destination.split_by
        self._schema = pa.schema(columns, _LIKE_SPARK)
        self._leaves = leaves(self._schema)
        self._buffered: dict[tuple[str | None, ...], list[pa.Table]] = {}
        """Rows that are in no file yet, by the values of their partition."""
        self._done: list[DataFile] = []
        self.buffered_bytes = 0

    @cached_property
    def _system(self) -> FileSystem:
        return self._destination.file_system()

    def add(self, rows: pa.Table) -> None:
        """Take rows with the table's columns."""
        rows = rows.select(self._destination.schema.names).cast(self._destination.schema)
        for values, part in _by_partition(rows, self._split_by):
            own = part.select(self._schema.names)
            self._buffered.setdefault(values, []).append(own)
            self.buffered_bytes += own.nbytes

    def flush(self) -> None:
        """Write what is held: a file for each partition."""
        for values, parts in self._buffered.items():
            by_name = dict(zip(self._split_by, values, strict=True))
            self._done.append(self._written(pa.concat_tables(parts), by_name))
        self._buffered, self.buffered_bytes = {}, 0

    def close(self) -> list[DataFile]:
        """Write what is held, and return all files."""
        self.flush()
        return self._done

    def _written(self, rows: pa.Table, values: dict[str, str | None]) -> DataFile:
        folder = "data/" if self._destination.is_iceberg else folders(values)
        path = f"{folder}part-{uuid.uuid4()}.zstd.parquet"
        for folder in accumulate(path.split("/")[:-1], "{}/{}".format):
            self._system.create_dir(folder, recursive=False)  # never the table's own, which somebody may have removed
        sample = rows.slice(0, _SAMPLE_ROWS)
        repeated = [".".join(leaf.path) for leaf in self._leaves if leaf.is_repeated or _repeats(sample, leaf.path)]
        with self._system.open_output_stream(path) as sink:
            with pq.ParquetWriter(
                sink,
                self._schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=repeated or False,
                store_decimal_as_integer=True,
            ) as writer:
                writer.write_table(rows, row_group_size=rows.num_rows)
            size = int(sink.tell())
        floats = (leaf.path for leaf in self._leaves if pa.types.is_floating(leaf.kind) and not leaf.is_repeated)
        with_nan = {path for path in floats if _has_nan(rows, path)}
        stats = statistics(writer.writer.metadata, self._leaves, with_nan, self._destination.indexed)
        footer = _footer(writer.writer.metadata) if self._destination.is_iceberg else ""
        return DataFile(path, size, values, int(time.time() * 1000), stats, footer)


def _footer(found: pq.FileMetaData) -> str:
    whole = io.BytesIO()
    found.write_metadata_file(whole)
    return base64.b64encode(whole.getvalue()).decode()


def _values(rows: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, [column.type.get_field_index(name)])  # a name may look like a path
    return column


def _has_nan(rows: pa.Table, path: tuple[str, ...]) -> bool:
    return bool(pc.any(pc.is_nan(_values(rows, path))).as_py())


def _repeats(rows: pa.Table, path: tuple[str, ...]) -> bool:
    """Whether a dictionary of the values is smaller than they are: made in vain, it doubles the time of writing."""
    return bool(pc.count_distinct(_values(rows, path), mode="all").as_py() * 2 <= rows.num_rows)


def _by_partition(rows: pa.Table, names: tuple[str, ...]) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """The rows of each partition, with its values as Delta's log has them."""
    if not names:
        yield (), rows
        return
    codes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        encoded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        _, codes = np.unique(codes, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    for part in np.split(order, ends) if len(order) else ():
        own = rows.take(pa.array(part))
        # (Source: "Partition Value Serialization" in Delta's PROTOCOL.md.)
        yield tuple(own.column(name)[:1].cast(pa.string())[0].as_py() for name in names), own
