"""A query's planner against a cluster of books, in virtual time: what each batch costs, and whether memory stays."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import psutil
from pyspark import cloudpickle

from bench.books import BookCluster, Shape
from spark_source.engine import ReadAllAvailable
from spark_source.options.given import parse_options
from spark_source.plan.read_task import ReadTask
from spark_source.stream.stream_reader import TubeStreamReader

__all__ = ["Day", "Memory", "PlannedBatch", "plan_for"]

T = TypeVar("T")
Json = dict[str, Any]

_HOUR_SECONDS: Final = 3_600.0
_MOST_STEPS: Final = 1 << 60


class PlannedBatch(NamedTuple):
    """One batch. CPU milliseconds of the planner, without those of masters and brokers."""

    latest_ms: float
    partitions_ms: float
    commit_ms: float
    sent_ms: float
    """Offsets to JSON and back, tasks pickled."""
    offsets_bytes: int
    plan_bytes: int
    tasks: int
    ranges: int
    connections: int
    """Pairs of a task and a broker that it reads from."""

    @property
    def planner_ms(self) -> float:
        return self.latest_ms + self.partitions_ms + self.commit_ms


class Memory(NamedTuple):
    """Of the whole process, masters and books included, after looking for garbage."""

    hour: float
    blocks: int
    """That Python has allocated."""
    rss_bytes: int


class Day(NamedTuple):
    """A stretch of virtual time."""

    batches: list[PlannedBatch]
    memory: list[Memory]
    seconds: float
    """Virtual."""
    cpu_seconds: float
    """Of everything, in reality."""
    master_calls: int
    master_seconds: float
    """CPU time of the masters, which are Python."""
    book_calls: int


def plan_for(
    folder: Path, shape: Shape, *, source_count: int, batches: int, interval_seconds: float, samples: int = 0
) -> Day:
    """Plan so many batches, one each `interval_seconds`, and look at the memory so often in that time."""
    cluster = BookCluster(folder, shape)
    hub = cluster.world.hub
    planned: list[PlannedBatch] = []
    memory: list[Memory] = []
    each = max(1, batches // samples) if samples else 0
    marks: list[tuple[float, int, float, int]] = []

    def query() -> None:
        reader = TubeStreamReader(parse_options(cluster.options("scale", source_count)))
        start = reader.initialOffset()
        reader.latestOffset(start, ReadAllAvailable())  # by the look that gave the start: nothing is new
        marks.append(_mark(cluster))
        for number in range(batches):
            hub.sleep(interval_seconds)
            start, batch = _batch(cluster, reader, start)
            planned.append(batch)
            if each and (number + 1) % each == 0:
                memory.append(_memory(hub.now))
        marks.append(_mark(cluster))
        reader.stop()

    began = time.process_time()
    fiber = cluster.world.process("planner").run(query)
    hub.run(lambda: fiber.done, (batches + 10) * interval_seconds + 600, _MOST_STEPS)
    if fiber.error is not None:
        raise fiber.error
    (first, calls, seconds, books), (last, last_calls, last_seconds, last_books) = marks
    return Day(
        planned,
        memory,
        last - first,
        time.process_time() - began,
        last_calls - calls,
        last_seconds - seconds,
        last_books - books,
    )


def _mark(cluster: BookCluster) -> tuple[float, int, float, int]:
    return cluster.world.hub.now, cluster.calls["master"], cluster.seconds["master"], cluster.calls["books"]


def _batch(
    cluster: BookCluster, reader: TubeStreamReader, start: dict[str, Any]
) -> tuple[dict[str, Any], PlannedBatch]:
    def timed(work: Callable[[], T]) -> tuple[T, float]:
        began, servers = time.process_time(), cluster.servers_seconds()
        result = work()
        used = time.process_time() - began - (cluster.servers_seconds() - servers)
        return result, used * 1000

    end, latest_ms = timed(lambda: reader.latestOffset(start, ReadAllAvailable()))
    if end == start:
        raise RuntimeError("nothing is new, though all stores grow")
    _, commit_ms = timed(lambda: reader.commit(start))
    tasks, partitions_ms = timed(lambda: reader.partitions(start, end))
    (text, sizes), sent_ms = timed(lambda: _as_spark_sends(end, tasks))
    reads = [task for task in tasks if isinstance(task, ReadTask)]
    ranges = sum(len(task.ranges) for task in reads)
    if ranges != cluster.shape.all_partitions:
        raise RuntimeError(f"the plan has {ranges} ranges for {cluster.shape.all_partitions} partitions")
    connections = sum(len({one.partition.broker_id for one in task.ranges}) for task in reads)
    batch = PlannedBatch(
        latest_ms, partitions_ms, commit_ms, sent_ms, len(text), sum(sizes), len(reads), ranges, connections
    )
    return json.loads(text), batch


def _as_spark_sends(end: Json, tasks: Sequence[object]) -> tuple[str, list[int]]:
    pickled = [len(cloudpickle.dumps(task)) for task in tasks]  # type: ignore[no-untyped-call]
    return json.dumps(end), pickled


def _memory(now: float) -> Memory:
    gc.collect()
    return Memory(now / _HOUR_SECONDS, sys.getallocatedblocks(), psutil.Process().memory_info().rss)
