"""A round's ranges read by tasks that write what they read: Parquet files for each table, good and bad records apart.

No table has any of it until the driver commits the files. Each attempt of a task writes files of its own, and the
driver hears of one attempt's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.boundary import one_line_errors
from spark_source.offsets.offset_spec import LAST_MS
from spark_source.options.source_options import SourceOptions
from spark_source.read.task_read import read_task
from spark_source.typed.columns import VALUE
from spark_source.typed.record_format import RecordFormat
from tubeclient.errors import TubeError
from tubeclient_ingest.settings.table_by import TableBy
from tubeclient_ingest.tables.data_files import DataFile, DataFiles, FileDestination
from tubeclient_ingest.tasks.arrow_rows import bad_rows, divided, example_of, target_table
from tubeclient_ingest.tasks.counting import time_column

if TYPE_CHECKING:
    from spark_source.plan.read_task import ReadTask

__all__ = [
    "RESULT",
    "BadDestination",
    "FilesNotWritten",
    "Route",
    "Routing",
    "Staged",
    "by_name",
    "columns_by_stream",
    "merged",
    "stage_tasks",
]

RESULT: Final = "result"
"""The column of what a task says."""
_BUFFERED_BYTES: Final = 64 << 20
"""Of rows that a task holds, of all tables together."""
_READ_BYTES: Final = 1 << 20
"""Of one table's rows that are decoded at once, or more. Each time has its price, and of many tables a batch has few
rows of each."""
_MINUTE_MS: Final = 60_000


class FilesNotWritten(TubeError):
    """A task could not write a table's files."""

    condition = "TARGET_NOT_WRITABLE"


@dataclass(frozen=True)
class BadDestination:
    """Where the bad records of a table go, and what all their rows have."""

    destination: FileDestination
    same: Mapping[str, str | int]
    has_value: bool = True
    """Whether they have the records' bytes."""


@dataclass(frozen=True)
class Route:
    """What a task makes of the records of one table, for the table's commit of this number."""

    form: RecordFormat
    number: int
    destination: FileDestination
    bad: BadDestination | None
    partitions: frozenset[str] | None = None
    """The keys of those whose records the table takes; None: all."""
    by_minute: bool = False
    """Whether its records are counted by the minute of their data time."""


@dataclass(frozen=True)
class Routing:
    """Which table takes a record. By default the only one, whose name is ""."""

    table_by: TableBy | None = None
    rest: str = ""
    """The table for records of no stream, and of `unknown` ones."""
    unknown: frozenset[str] = frozenset()
    older: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By stream, the partitions whose records go to `rest`."""

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, str, pa.RecordBatch, set[str]]]:
        """Batches' rows by their tables: the table, the stream (`rest` of none), the rows, and what the batch's events
        say of the stream's columns, which comes once."""
        if self.table_by is None:
            for batch in batches:
                yield "", "", batch, set()
            return
        names_of, columns_of = self.table_by.names(), self.table_by.columns_of()
        for batch in batches:
            names = names_of(batch)
            columns = columns_of(batch, names)
            for table, stream, rows in self._divided(batch, pc.fill_null(names, self.rest)):
                yield table, stream, rows, columns.pop(stream, set())

    def _divided(self, batch: pa.RecordBatch, streams: pa.Array) -> Iterator[tuple[str, str, pa.RecordBatch]]:
        for stream, rows in by_name(batch, streams):
            if stream in self.unknown or stream == self.rest:
                yield self.rest, stream, rows
                continue
            if stream not in self.older:
                yield stream, stream, rows
                continue
            older = pc.is_in(rows.column("partitionKey"), pa.array(sorted(self.older[stream]), pa.string()))
            for table, which in ((stream, pc.invert(older)), (self.rest, older)):
                if (some := rows.filter(which)).num_rows:
                    yield table, stream, some


class Staged(NamedTuple):
    """What tasks wrote for one table."""

    number: int
    files: tuple[DataFile, ...] = ()
    bad_files: tuple[DataFile, ...] = ()
    rows: int = 0
    """Of `files`."""
    total: int = 0
    """Records, with the bad ones."""
    bad: int = 0
    example: str = ""
    """The place and the reason of a bad record."""
    minutes: Mapping[int | None, tuple[int, int]] = MappingProxyType({})
    """By minute, in ms since 1970, how many records there are, and how many of them are bad."""
    streams: frozenset[str] = frozenset()
    """Of the table for the rest, those whose records it got; "" for those of none."""
    columns: Mapping[str, frozenset[str]] = MappingProxyType({})
    """What events say of the columns, by stream, as TableBy has it."""


def stage_tasks(
    options: SourceOptions,
    tasks: Sequence[ReadTask],
    arrival: str | None,
    routing: Routing,
    routes: Mapping[str, Route],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The function of a round's frame: a row for each task, with the JSON of what it wrote. Records of a table without
    a route are counted, and not written. `options` are those for tasks."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            with_errors = one_line_errors(_staged(read_task(options, tasks[number], arrival), routing, routes))
            yield pa.RecordBatch.from_pydict({RESULT: [json.dumps(result) for result in with_errors]})


def _staged(
    batches: Iterable[pa.RecordBatch], routing: Routing, routes: Mapping[str, Route]
) -> Iterator[Mapping[str, Any]]:
    tables: dict[str, _Table] = {}
    buffered_bytes = 0
    try:
        for name, stream, rows, columns in routing.parts(batches):
            if name not in tables:
                tables[name] = _Table(routes.get(name))
            before = tables[name].buffered_bytes
            tables[name].take(stream, rows)
            tables[name].columns.setdefault(stream, set()).update(columns)
            buffered_bytes += tables[name].buffered_bytes - before
            if buffered_bytes >= _BUFFERED_BYTES:
                for table in tables.values():
                    table.flush()
                buffered_bytes = 0
        yield {name: table.end() for name, table in tables.items()}
    except OSError as error:
        if isinstance(error, TubeError):
            raise
        text = next((route.destination.text_of(error) for route in routes.values()), str(error))
        raise FilesNotWritten(
            f"a task cannot write the files of a round: {text}. Nothing of the round was written. Fix that and start "
            "again: the job continues where the rows end"
        ) from None


class _Table:
    """One table in a task."""

    def __init__(self, route: Route | None) -> None:
        self._route = route
        self._decode: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = iter
        self._good = self._bad = None
        if route is not None:
            if route.form.kind != "raw":
                self._decode = route.form.decoding(all_values=bool(route.destination.partition_by))
            self._good = DataFiles(route.destination)
            self._bad = None if route.bad is None else DataFiles(route.bad.destination)
        self._rows = self._total = self._bad_count = 0
        self._example = ""
        self._minutes: Counter[int | None] = Counter()
        self._bad_minutes: Counter[int | None] = Counter()
        self._streams: set[str] = set()
        self.columns: dict[str, set[str]] = {}
        """What events say of the columns, by stream."""
        self._unread: list[pa.RecordBatch] = []
        self._unread_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        return self._unread_bytes + sum(files.buffered_bytes for files in (self._good, self._bad) if files is not None)

    def flush(self) -> None:
        self._read()
        for files in (self._good, self._bad):
            if files is not None:
                files.flush()

    def take(self, stream: str, rows: pa.RecordBatch) -> None:
        route = self._route
        if route is None:
            self._total += rows.num_rows
            return
        if route.partitions is not None:
            keys = pa.array(sorted(route.partitions), pa.string())
            rows = rows.filter(pc.is_in(rows.column("partitionKey"), keys))
        if not rows.num_rows:
            return
        self._streams.add(stream)
        self._unread.append(rows)
        self._unread_bytes += rows.nbytes
        if self._unread_bytes >= _READ_BYTES:
            self._read()

    def _read(self) -> None:
        """Decode what was taken."""
        route, unread = self._route, self._unread
        self._unread, self._unread_bytes = [], 0
        if route is None or not unread:
            return
        assert self._good is not None
        for batch in self._decode(iter([pa.concat_batches(unread)])):
            good, bad, reasons = divided(
                route.form, batch, route.destination.partition_by, has_bad=route.bad is not None
            )
            self._total += batch.num_rows
            self._bad_count += bad.num_rows
            if route.by_minute:
                self._minutes.update(_minutes(batch))
                self._bad_minutes.update(_minutes(bad))
            if bad.num_rows and not self._example:
                self._example = example_of(bad, reasons)
            if self._bad is not None and route.bad is not None and bad.num_rows:
                stored = bad if route.bad.has_value else bad.drop_columns([VALUE])
                self._bad.add(bad_rows(route.form, stored, reasons, route.bad.same, route.bad.destination.schema))
            if self._bad is None and self._bad_count:
                continue  # the round will not be written
            made = target_table(route.form, good, route.number)
            self._rows += made.num_rows
            if made.num_rows:
                self._good.add(made)

    def end(self) -> Mapping[str, Any]:
        self._read()
        fails = self._bad is None and self._bad_count
        return {
            "files": [] if self._good is None or fails else self._good.close(),
            "bad_files": [] if self._bad is None else self._bad.close(),
            "rows": self._rows,
            "total": self._total,
            "bad": self._bad_count,
            "example": self._example,
            "minutes": [[minute, count, self._bad_minutes[minute]] for minute, count in self._minutes.items()],
            "streams": sorted(self._streams),
            "columns": {stream: sorted(texts) for stream, texts in self.columns.items() if texts},
        }


def by_name(batch: pa.RecordBatch, names: pa.Array) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each name, in the order that they have; of all names or copies, to hold no others."""
    encoded = names.dictionary_encode()
    if len(encoded.dictionary) == 1:
        yield encoded.dictionary[0].as_py(), batch
        return
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ()
    for name, part in zip(encoded.dictionary.to_pylist(), parts, strict=False):
        yield name, batch.take(pa.array(part))


def _minutes(rows: pa.RecordBatch) -> Mapping[int | None, int]:
    """How many rows there are by the minute of their time, in ms since 1970; None without one, or if no clock of
    Python's shows it: the sender chooses it."""
    us = rows.column(time_column(rows.schema.names)).cast(pa.int64())
    minutes = pc.multiply(pc.divide(us, _MINUTE_MS * 1000), _MINUTE_MS)
    known = pc.and_(pc.greater_equal(us, 0), pc.less(us, (LAST_MS + 1) * 1000))
    counted = pc.value_counts(pc.if_else(pc.fill_null(known, False), minutes, None))
    return {row["values"]: row["counts"] for row in counted.to_pylist()}


def columns_by_stream(several: Iterable[Staged]) -> dict[str, set[str]]:
    """What events say of the columns, by stream: rows of one may be in two tables."""
    found: dict[str, set[str]] = {}
    for staged in several:
        for stream, texts in staged.columns.items():
            found.setdefault(stream, set()).update(texts)
    return found


def merged(results: Iterable[str], routes: Mapping[str, Route]) -> dict[str, Staged]:
    """What all tasks wrote, by table."""
    found: dict[str, Staged] = {}
    for text in results:
        for name, part in json.loads(text).items():
            number = routes[name].number if name in routes else 0
            before = found.get(name, Staged(number))
            minutes = dict(before.minutes)
            for minute, count, bad in part["minutes"]:
                received, bad_before = minutes.get(minute, (0, 0))
                minutes[minute] = received + count, bad_before + bad
            columns = dict(before.columns)
            for stream, texts in part["columns"].items():
                columns[stream] = columns.get(stream, frozenset()).union(texts)
            found[name] = Staged(
                number,
                (*before.files, *(DataFile(*each) for each in part["files"])),
                (*before.bad_files, *(DataFile(*each) for each in part["bad_files"])),
                before.rows + part["rows"],
                before.total + part["total"],
                before.bad + part["bad"],
                min(filter(None, (before.example, part["example"])), default=""),
                minutes,
                before.streams.union(part["streams"]),
                columns,
            )
    return found
