"""The ingest job on the fake Spark: its own code, with stand-ins for what it asks of Spark's SQL and file systems."""

from __future__ import annotations

import gc
import importlib
import pickle
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
from pyspark.errors import PySparkException

import offsets_store
import tubeclient.consumers.group
import tubeclient.net.http
import tubeclient.net.pool
import tubeclient.range_reader
from offsets_store import OffsetsTable, OffsetsTableError
from offsets_store.table import now_ms
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.planner import StreamPlanner
from spark_source.typed.format_settings import FormatSettings
from tests.offsets_store.memory import MemoryStorage
from tests.simulation import network, stand_ins
from tests.simulation.spark import Rows, Session
from tests.simulation.target import BadRow, MemoryBadRecords, MemoryTarget, Row, is_bad
from tests.simulation.world import DiskFailure, World
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds import definitions, writing
from tubeclient_ingest.rounds.counts_table import CountsTable
from tubeclient_ingest.rounds.one_table import OneTable
from tubeclient_ingest.rounds.stream_tables import StreamTables
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.run import Run
from tubeclient_ingest.settings.ingest_settings import TASKS, IngestSettings
from tubeclient_ingest.tables.data_files import DataFile
from tubeclient_ingest.tasks.counting import Counted
from tubeclient_ingest.tasks.round_read import read_tasks
from tubeclient_ingest.tasks.staging import Routing, Staged

DEFINED_SECONDS = 60.0

__all__ = ["Settings", "install", "run_job", "set_world"]

_world: World | None = None


def set_world(world: World) -> None:
    global _world
    _world = world


def the_world() -> World:
    assert _world is not None
    return _world


class Settings(IngestSettings):
    """Of a job whose records are bad if they end with "!"."""

    @property
    def records(self) -> Any:
        return _Records()


class _Records(FormatSettings):
    def record_format(self) -> Any:
        return _Format()


class _Format:
    kind = "raw"
    keys = ()
    has_change = False

    def parse(self, rows: Rows) -> Rows:
        return rows

    def only_good(self, rows: Rows) -> Rows:
        return rows


class _Pointed:
    """A planner between whose calls the driver may die."""

    def __init__(self, planner: StreamPlanner, session: Session) -> None:
        self._planner = planner
        self._session = session

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._planner, name)

        def call(*arguments: Any) -> Any:
            self._session.point(f"before {name}")
            result = method(*arguments)
            self._session.point(f"after {name}")
            return result

        return call

    def close(self) -> None:
        self._planner.close()


class _Writer(Writer):
    """Its tables are in memory, and fit."""

    def open(self, *, create: bool = True, writes: bool = True) -> None:
        tasks_write = self.settings.writer == TASKS
        self._files: Any = self._target if tasks_write else None
        self.why_spark = "" if tasks_write else "writer is spark"
        self._detail = self.sink.detail()
        if self._detail is None:
            columns: Any = None
            self._target.create(columns)
            self._detail = self.sink.detail()
        if self.bad_records is not None:
            self.bad_records.open(create=create)

    def _no_rows(self) -> Any:
        return None

    def route(self, record: SinkRecord, partitions: frozenset[str] | None = None) -> Any:
        return _Route(record, self.detail.table_id, partitions, has_bad=self.bad_records is not None)


@dataclass(frozen=True)
class _Route:
    """What tasks need to know of a table."""

    record: SinkRecord
    table_id: str
    partitions: frozenset[str] | None
    has_bad: bool

    @property
    def number(self) -> int:
        return self.record.sequence


class _Read:
    """A round's ranges."""

    def __init__(self, session: Session, readings: Sequence[Any]) -> None:
        self._session, self._readings = session, readings

    def rows(self, decoding: Any = None, table_by: Any = None) -> Rows:
        return Rows(lambda: self._session.read(self._readings))

    def stage(self, routing: Routing, routes: Mapping[str, Any]) -> dict[str, Staged]:
        by_table: dict[str, list[tuple[str, Row]]] = {}
        for row in self._session.read(self._readings):
            stream = _stream_of(row, routing)
            is_rest = stream in routing.unknown or row.partition in routing.older.get(stream, ())
            by_table.setdefault(routing.rest if is_rest else stream, []).append((stream, row))
        return {name: _staged(rows, routes.get(name)) for name, rows in by_table.items()}


def _stream_of(row: Row, routing: Routing) -> str:
    if routing.table_by is None:
        return ""
    group: Any = the_world().target
    return str(group.stream_of(row.value))


def _staged(found: Sequence[tuple[str, Row]], route: _Route | None) -> Staged:
    if route is None:
        return Staged(0, total=len(found))
    taken = [(stream, row) for stream, row in found if route.partitions is None or row.partition in route.partitions]
    rows = [row for _, row in taken]
    good, bad = [one for one in rows if not is_bad(one)], [one for one in rows if is_bad(one)]
    number, run_id = route.number, route.record.run_id
    return Staged(
        number,
        _file(good),
        _file([BadRow(one, number, run_id, route.table_id) for one in bad]) if route.has_bad else (),
        len(good),
        len(rows),
        len(bad),
        str(bad[0]) if bad else "",
        {None: (len(rows), len(bad))},
        frozenset(stream for stream, _ in taken),
    )


def _file(rows: Sequence[Any]) -> tuple[DataFile, ...]:
    files = the_world().files
    path = str(len(files))
    files[path] = tuple(rows)
    return (DataFile(path, len(rows), {}, 0, ""),) if rows else ()


class _Engine:
    """A run's engine on the fake Spark. The planner is in the driver's process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def planner(self, options: SourceOptions) -> Any:
        return _Pointed(StreamPlanner(options, TubeCluster(options), ProgressTable(options)), self._session)

    def read(self, options: SourceOptions, tasks: Sequence[ReadTask], place: str | None) -> Any:
        sent = [pickle.dumps(partial(read_tasks, options.for_tasks(), [task], None, None, None)) for task in tasks]
        self._session.point("after the round was planned")
        # Its tables are written one after the other.
        the_world().in_round = {one.partition: one.end for task in tasks for one in task.ranges}
        return _Read(self._session, [partial(_read, one) for one in sent])

    def tables(self, settings: IngestSettings, options: SourceOptions, tell: Any) -> Any:
        masters, world = options.master_servers, the_world()
        if settings.inlong_group is None:
            target = MemoryTarget(world.target.table(Path(settings.target).name), world.disk.pause, world.files)
            return OneTable(self.writer(settings, options, target), settings, masters)
        rows: Any = _StreamRows(world)

        def writer_of(one: IngestSettings, target: Any) -> Writer:
            return self.writer(one, options, target)

        return StreamTables(rows, settings, masters, writer_of, lambda event: world.tell(str(event)))

    def writer(self, settings: IngestSettings, options: SourceOptions, target: Any) -> Writer:
        world = the_world()
        bad: Any = (
            MemoryBadRecords(world.bad, world.disk.pause, world.files) if settings.bad_records is not None else None
        )
        spark: Any = None
        return _Writer(spark, settings, options, target, bad, settings.records.record_format())


class _StreamRows:
    """In place of StreamRows: a record's stream is known by its bytes."""

    no_counts: Any = SimpleNamespace(schema=None)

    def __init__(self, world: World) -> None:
        self._world = world

    def table_of(self, name: str) -> Any:
        return MemoryTarget(self._world.target.table(name), self._world.disk.pause, self._world.files)

    def open_bad_records(self, *, create: bool) -> None:
        """It is there."""

    def make_schema(self, name: str) -> None:
        """Its tables have no names."""

    def columns(self, named: Rows) -> dict[str, set[str]]:
        return {}

    def named(self, read: _Read, _: object) -> Rows:
        return read.rows()

    def counted(self, named: Rows, *, by_partition: bool) -> list[tuple[str, None, PartitionKey | None, int]]:
        group: Any = self._world.target
        found = Counter((group.stream_of(row.value), row.partition) for row in named.collect())
        return [(name, None, PartitionKey.parse(key) if by_partition else None, n) for (name, key), n in found.items()]

    def part(self, named: Rows, names: Collection[str], partitions: Collection[PartitionKey] | None) -> Rows:
        group: Any = self._world.target
        keys = None if partitions is None else set(map(str, partitions))
        return named.where(lambda row: group.stream_of(row.value) in names and (keys is None or row.partition in keys))

    def counted_rows(self, counts: Any, *_: Any) -> list[Row]:
        """As rows of the counts table, whose key is the stream's name."""
        return [Row(name, b"%d %d" % (one.received, one.bad)) for name, some in counts.items() for one in some]

    def counts(self, counts: Any, *_: Any) -> Rows:
        rows = self.counted_rows(counts)
        return Rows(lambda: rows)


def _choose_counts(table: Any, _: object) -> None:
    table._log = table._table if table._settings.writer == TASKS else None


def _defines(settings: IngestSettings, name: str) -> bool:
    """The second stream is defined late."""
    return name != "s1" or the_world().hub.now > DEFINED_SECONDS


def _read(sent: bytes) -> Any:
    return pickle.loads(sent)(iter([pyarrow.record_batch({"id": [0]})]))


def _count(parsed: Rows, **_: Any) -> Any:
    rows = parsed.collect()
    bad = [row for row in rows if is_bad(row)]
    return Counted(len(rows), len(bad), str(bad[0]) if bad else "", {None: len(bad)})


def _good(parsed: Rows) -> Rows:
    return parsed.where(lambda row: not is_bad(row))


def _or_fail(parsed: Rows) -> Rows:
    def one(row: Row) -> bool:
        if is_bad(row):
            raise PySparkException(f"[USER_RAISED_EXCEPTION] bad record in {row}. SQLSTATE: P0001")
        return True

    return parsed.where(one)


class _Storage(MemoryStorage):
    """The offsets table's storage: its failures are those that a real one names."""

    def __init__(self, world: World) -> None:
        def pause(what: str) -> None:
            try:
                world.disk.pause(what)
            except DiskFailure as error:
                raise OffsetsTableError(f"could not use the offsets table: {error}") from None

        super().__init__(world.table, pause)


def _offsets_table(uri: str, *_: Any, **__: Any) -> OffsetsTable:
    return OffsetsTable(uri, clock_ms=lambda: now_ms(), storage=_Storage(the_world()), client_version="simulated")


def _pool(settings: Any) -> Any:
    pools = stand_ins.current().process.pools
    if settings not in pools:
        pools[settings] = tubeclient.net.pool.ConnectionPool(settings)
    return pools[settings]


_LATE = (
    "spark_source.cluster.cluster",
    "spark_source.progress.progress_table",
    "spark_source.read.arrow",
    "spark_source.read.task_read",
    "spark_source.stream.planner",
    "spark_source.stream.planner_process",
    "tubeclient.admin",
)
"""Modules that the product imports on first use."""


def install() -> None:
    """Put all stand-ins into the product's modules, for the rest of the process's life."""
    for name in _LATE:
        importlib.import_module(name)
    replaced: list[tuple[Any, str, Any]] = [
        (tubeclient.net.pool, "Connection", network.Connection),
        (tubeclient.net.http, "fetch", network.fetch),
        (tubeclient.range_reader, "shared_pool", _pool),
        (tubeclient.consumers.group, "shared_pool", _pool),
        (offsets_store, "OffsetsTable", _offsets_table),
        (definitions, "defines", _defines),
        (writing, "count", _count),
        (writing, "target_rows", _good),
        (writing, "or_fail", _or_fail),
        (CountsTable, "_choose", _choose_counts),
        (CountsTable, "_written", lambda _, rows: _file(rows)),
        (StreamTables, "_at_once", lambda _, work, given: [work(one) for one in given]),
    ]
    for module, name, value in replaced:
        assert hasattr(module, name), name
        setattr(module, name, value)
    stand_ins.install()
    gc.collect()
    gc.freeze()  # so that looking for garbage between two seeds is quick


def run_job(session: Session, settings: IngestSettings, stop: Any) -> None:
    """Run the job in the driver's process."""
    engine: Any = _Engine(session)
    Run(engine, settings).until_end(stop)
