"""The ingest job on the fake Spark: its own code, with stand-ins for what it asks of Spark's SQL and file systems."""

from __future__ import annotations

import contextlib
import gc
import importlib
from typing import Any

import offsets_store
import tubeclient.net.http
import tubeclient.net.pool
import tubeclient.present_brokers
import tubeclient.range_reader
import tubeclient_cli.ingest.batch_writer as batch_writer
import tubeclient_cli.ingest.job as job
from offsets_store import OffsetsTable, OffsetsTableError
from offsets_store.table import now_ms
from spark_source.offsets.offsets import Offsets
from spark_source.typed.format_settings import FormatSettings
from tests.offsets_store.memory import MemoryStorage
from tests.simulation import network, stand_ins
from tests.simulation.spark import CheckpointFiles, Rows, Session
from tests.simulation.target import MemoryLetters, MemoryTarget, is_bad
from tests.simulation.world import DiskFailure, World
from tubeclient_cli.ingest.settings import IngestSettings
from tubeclient_cli.ingest.sink import DeltaSink

__all__ = ["Records", "install", "run_job", "set_world"]

_world: World | None = None


def set_world(world: World) -> None:
    global _world
    _world = world


def the_world() -> World:
    assert _world is not None
    return _world


class Records(FormatSettings):
    """Records that are bad if they end with "!"."""

    def record_format(self) -> Any:
        return _Format()


class _Format:
    def parse(self, rows: Rows) -> Rows:
        return rows

    def only_good(self, rows: Rows) -> Rows:
        return rows


class _Checkpoint:
    """tubeclient_cli.ingest.checkpoint.Checkpoint."""

    def __init__(self, spark: Session, location: str) -> None:
        self._spark = spark
        self._files: CheckpointFiles = spark.checkpoint

    def query_id(self) -> str | None:
        return self._files.query_id

    def end_of(self, batch_id: int) -> Offsets | None:
        text = self._files.offsets.get(batch_id)
        return None if text is None else Offsets.parse(text)

    def newest_end(self) -> Offsets | None:
        return self.end_of(max(self._files.offsets)) if self._files.offsets else None

    def newest_batch(self, log: str = "offsets") -> int | None:
        return max(self._files.offsets if log == "offsets" else self._files.commits, default=None)

    def start_of_running_batch(self) -> Offsets | None:
        query = self._spark.query
        if query is None or query.running is None or query.id != self.query_id():
            return None
        return Offsets.parse(query.running[0])


def _count(parsed: Rows) -> Any:
    rows = parsed.collect()
    bad = [row for row in rows if is_bad(row)]
    return batch_writer._Counted(len(rows), len(bad), str(bad[0]) if bad else "")


def _good(parsed: Rows) -> Rows:
    return parsed.where(lambda row: not is_bad(row))


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


class _NoWatch:
    def __init__(self, *_: Any) -> None:
        """Collecting garbage is not part of the simulation."""

    def begin(self) -> None: ...
    def end(self) -> None: ...


_LATE = (
    "spark_source.cluster.cluster",
    "spark_source.progress.offsets_listener",
    "spark_source.progress.progress_table",
    "spark_source.read.arrow",
    "spark_source.read.batch_sizes",
    "spark_source.read.kept_messages",
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
        (tubeclient.net.http, "_fetch", network.fetch),
        (tubeclient.range_reader, "shared_pool", _pool),
        (tubeclient.range_reader, "Watch", _NoWatch),
        (tubeclient.range_reader, "enter", lambda *_: None),
        (tubeclient.present_brokers, "shared_pool", _pool),
        (offsets_store, "OffsetsTable", _offsets_table),
        (job, "Checkpoint", _Checkpoint),
        (job, "check_columns", lambda *_, **__: None),
        (job, "columns_of", lambda *_: None),
        (job, "as_records_mean", contextlib.nullcontext),
        (job, "DeltaSink", _sink),
        (batch_writer, "DeadLetters", lambda *_: MemoryLetters(the_world().letters, the_world().disk.pause)),
        (batch_writer, "_count", _count),
        (batch_writer, "target_rows", _good),
    ]
    for module, name, value in replaced:
        assert hasattr(module, name), name
        setattr(module, name, value)
    stand_ins.install()
    gc.collect()
    gc.freeze()  # so that looking for garbage between two seeds is quick


def _sink(spark: Any, path: str, consumer_group: str, *, evolve: bool = False) -> DeltaSink:
    return DeltaSink(spark, path, consumer_group, table=MemoryTarget(the_world().target, the_world().disk.pause))


def run_job(session: Session, settings: IngestSettings, stop: Any) -> Any:
    """Run the job in the driver's process."""
    return job.run_ingest(session, settings, stop=stop)  # type: ignore[arg-type]
