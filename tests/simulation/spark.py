"""A small fake Spark: calls a streaming source in Spark's order, and keeps a checkpoint as Spark does.

For each batch: latestOffset, reportLatestOffset, the offset log, commit of the batch before, partitions, the tasks, the
sink, the commit log. Batch 0 asks for initialOffset before and again after its offset log. A restart replays a batch
that is in the offset log and not in the commit log, without latestOffset. Both logs are put if absent.

Driver, planner and each attempt of a task are processes of their own. `point` is called between any two calls.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from spark_source.boundary import ReadAllAvailable
from spark_source.options.given import parse_options
from spark_source.stream.stream_reader import TubeStreamReader
from tests.simulation.hub import Fiber, Process
from tests.simulation.stand_ins import Event, _DateTime
from tests.simulation.target import Row
from tests.simulation.world import World
from tubeclient.keys import PartitionKey

__all__ = ["CheckpointFiles", "ConcurrentQuery", "Query", "Reading", "Rows", "Session", "TaskFailed", "WorkerDied"]

Reading = Callable[[], Iterator[Any]]
"""What a task does, in a process of its own: gives its Arrow batches."""

MAX_ATTEMPTS = 4
POLL_SECONDS = 0.25


class ConcurrentQuery(Exception):
    """Another query wrote the same entry of the checkpoint."""


class PlannerGone(Exception):
    """The planner's process died."""


class WorkerDied(Exception):
    """A task's process died."""


class TaskFailed(Exception):
    """A task failed as often as Spark lets it; the cause is the last failure."""


@dataclass
class CheckpointFiles:
    """A checkpoint's folder."""

    query_id: str | None = None
    offsets: dict[int, str] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)

    def copy(self) -> CheckpointFiles:
        return CheckpointFiles(self.query_id, dict(self.offsets), set(self.commits))


@dataclass
class Chances:
    """What may happen to tasks, each attempt by chance."""

    attempt_dies: float = 0.0
    speculates: float = 0.0
    planner_dies: float = 0.0


class Rows:
    """A DataFrame of a batch: computed at each use, unless it is persisted."""

    def __init__(self, compute: Callable[[], list[Row]]) -> None:
        self._compute = compute
        self._kept: list[Row] | None = None
        self._persists = False

    def collect(self) -> list[Row]:
        if self._kept is not None:
            return self._kept
        rows = self._compute()
        if self._persists:
            self._kept = rows
        return rows

    def persist(self) -> Rows:
        self._persists = True
        return self

    def unpersist(self) -> None:
        self._persists, self._kept = False, None

    def where(self, keep: Callable[[Row], bool]) -> Rows:
        return Rows(lambda: [row for row in self.collect() if keep(row)])

    def union(self, others: Rows) -> Rows:
        return Rows(lambda: [*self.collect(), *others.collect()])

    def drop(self, *_: str) -> Rows:
        return self


class Session:
    """What the driver's code sees as a SparkSession."""

    def __init__(
        self, world: World, driver: Process, checkpoint: CheckpointFiles, point: Callable[[str], None]
    ) -> None:
        self.world = world
        self.driver = driver
        self.checkpoint = checkpoint
        self.point = point
        self.chances = Chances()
        self.query: Query | None = None
        self.planned: dict[PartitionKey, int] = {}
        """Where the ingest job's running round ends."""
        self.listeners: list[Any] = []

    def read(self, tasks: Sequence[Reading]) -> list[Row]:
        """Run the tasks at once; each one's rows, in their order."""
        hub = self.world.hub
        fibers = [self.driver.run(partial(self._task, task), "task") for task in tasks]
        for fiber in fibers:
            hub.join(fiber)
        for fiber in fibers:
            if fiber.error is not None:
                raise fiber.error
        return [row for fiber in fibers for row in fiber.result]

    def _task(self, task: Reading) -> list[Row]:
        """One task: attempts one after the other, or beside each other where Spark speculates."""
        hub, chances = self.world.hub, self.chances
        draw = hub.random.random
        last: BaseException | None = None
        for _ in range(MAX_ATTEMPTS):
            attempts = [self._attempt(task)]
            if chances.attempt_dies and draw() < chances.attempt_dies:
                hub.at(draw() ** 2 * 0.2, attempts[0].process.kill)
            speculates = chances.speculates and draw() < chances.speculates
            hub.join(attempts[0], draw() * 0.02 if speculates else None)
            if speculates and not attempts[0].done:
                attempts.append(self._attempt(task))
                while not any(one.done for one in attempts):
                    hub.sleep(0.005)
            done = [one for one in attempts if one.done]
            won = next((one for one in done if one.error is None and not one.process.dead), None)
            if won is None and len(done) < len(attempts):
                other = next(one for one in attempts if not one.done)
                hub.join(other)
                done.append(other)
                won = other if other.error is None and not other.process.dead else None
            result = None if won is None else won.result
            for one in attempts:
                last = WorkerDied(str(one.process)) if one.process.dead else one.error or last
                one.process.kill()
            if result is not None:
                rows: list[Row] = result
                return rows
        raise TaskFailed(f"a task failed {MAX_ATTEMPTS} times: {last!r}") from last

    def _attempt(self, task: Reading) -> Fiber:
        worker = self.world.process("task", f"worker{self.world.hub.random.randrange(2)}")
        self.driver.ends.append(worker.kill)

        def read() -> list[Row]:
            rows = list(_rows(task()))
            self.world.on_task(rows)
            return rows

        return worker.run(read)


class Query:
    """A running query; `write` is foreachBatch's callback."""

    def __init__(
        self,
        session: Session,
        options: Mapping[str, str],
        write: Callable[[Rows, int], None],
        name: str,
        interval_seconds: float | None,
    ) -> None:
        self.world, self.driver, self.session = session.world, session.driver, session
        self.files = session.checkpoint
        if self.files.query_id is None:
            self.files.query_id = f"query-{self.world.hub.random.getrandbits(32):08x}"
        self.id = self.files.query_id
        self.name = name
        self.run_id = f"run-{self.world.hub.random.getrandbits(32):08x}"
        self.recentProgress: list[Any] = []
        self.status = {"isTriggerActive": True, "isDataAvailable": False}
        self.error: BaseException | None = None
        self._options = options
        self._write = write
        self._interval = interval_seconds
        self._stopping = False
        self._ended = Event()
        self.planner: Process | None = None
        self._reader: TubeStreamReader | None = None
        self._tasks_reader = b""
        for listener in session.listeners:
            listener.onQueryStarted(self._event(id=self.id, runId=self.run_id, name=name))
        self._fiber = self.driver.run(self._run, "query")

    # For the driver's main thread

    @property
    def isActive(self) -> bool:
        return not self._ended.is_set()

    def awaitTermination(self, seconds: float) -> bool:
        self._ended.wait(seconds)
        if self.error is not None:
            raise self.error
        return self._ended.is_set()

    def stop(self) -> None:
        self._stopping = True
        self._ended.wait(120.0)

    # The query's own thread

    def _run(self) -> None:
        try:
            self._batches()
        except Exception as error:
            self.error = error
        finally:
            if not self.driver.dead:
                self._end_planner()
                for listener in self.session.listeners:
                    listener.onQueryTerminated(self._event(id=self.id, runId=self.run_id, exception=None))
                self._ended.set()

    def _batches(self) -> None:
        self._start_planner()
        if self._interval is None:
            self._call("prepareForTriggerAvailableNow", lambda reader: reader.prepareForTriggerAvailableNow())
        limit = self._call("getDefaultReadLimit", lambda reader: reader.getDefaultReadLimit())
        if self._interval is None and not self._options.get("maxOffsetsPerTrigger"):
            limit = ReadAllAvailable()
        offsets, commits = self.files.offsets, self.files.commits
        number = max(offsets, default=-1)
        if number >= 0 and number not in commits:
            start = offsets.get(number - 1)
            if start is None:
                start = self._json("initialOffset", lambda reader: reader.initialOffset())
            self._batch(number, start, offsets[number])
            end = offsets[number]
        elif number >= 0:
            end = offsets[number]
        else:
            end = self._json("initialOffset", lambda reader: reader.initialOffset())
        number += 1
        while not self._stopping:
            start, begun = end, self.world.hub.now
            told = json.loads(start)
            end = self._json("latestOffset", lambda reader, told=told: reader.latestOffset(told, limit))  # type: ignore[misc]
            self._call("reportLatestOffset", lambda reader: reader.reportLatestOffset())
            if end != start:
                self._put(number, end)
                if number > 0:
                    self._call("commit", lambda reader, told=told: reader.commit(told))  # type: ignore[misc]
                self._batch(number, start, end)
                number += 1
            elif self._interval is None:
                break
            else:
                self.status["isTriggerActive"] = False
            wait = max(0.011, (self._interval or 0.0) - (self.world.hub.now - begun))
            self.world.hub.sleep(wait)
            self.status["isTriggerActive"] = True

    def _put(self, number: int, end: str) -> None:
        self._point(f"before offsets/{number}")
        if self.files.query_id != self.id or number in self.files.offsets:
            raise ConcurrentQuery(f"offsets/{number} is there")
        self.files.offsets[number] = end
        self._point(f"after offsets/{number}")

    def _batch(self, number: int, start: str, end: str) -> None:
        began = self.world.hub.now
        if number == 0:
            start = self._json("initialOffset", lambda reader: reader.initialOffset())
        first, last = json.loads(start), json.loads(end)
        partitions = self._call("partitions", lambda reader: reader.partitions(first, last))
        if not self._tasks_reader:
            # Spark makes the copy for the tasks in a process of its own.
            self._tasks_reader = pickle.dumps(self._new_reader())
        tasks = [pickle.dumps(one) for one in partitions]
        self.status["isDataAvailable"] = True
        reader = self._tasks_reader
        readings = [partial(_of_stream, reader, task) for task in tasks]
        self._write(Rows(lambda: self.session.read(readings)), number)
        self._point(f"before commits/{number}")
        if self.files.query_id != self.id or number in self.files.commits:
            raise ConcurrentQuery(f"commits/{number} is there")
        self.files.commits.add(number)
        self.world.tell(f"{self.driver} committed batch {number}")
        self._point(f"after commits/{number}")
        self._progress(number, start, end, began)

    def _progress(self, number: int, start: str, end: str, began: float) -> None:
        at = _DateTime.now(UTC).timestamp() - (self.world.hub.now - began)
        document = {
            "id": self.id,
            "runId": self.run_id,
            "name": self.name,
            "batchId": number,
            "timestamp": _DateTime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z"),
            "batchDuration": int((self.world.hub.now - began) * 1000),
            "sources": [{"startOffset": json.loads(start), "endOffset": json.loads(end), "latestOffset": None}],
        }
        for listener in self.session.listeners:
            listener.onQueryProgress(self._event(progress=self._event(json=json.dumps(document), batchId=number)))

    @staticmethod
    def _event(**fields: Any) -> Any:
        return SimpleNamespace(**fields)

    # The planner's process

    def _new_reader(self) -> TubeStreamReader:
        return TubeStreamReader(parse_options(dict(self._options)))

    def _start_planner(self) -> None:
        self.planner = planner = self.world.process("planner", self.driver.host)
        self.driver.ends.append(lambda: self.world.hub.at(0.2, planner.kill))
        self._reader = self._in(planner, self._new_reader)

    def _end_planner(self) -> None:
        planner, reader = self.planner, self._reader
        if planner is not None and not planner.dead:
            if reader is not None:
                fiber = planner.run(reader.stop, "stop")  # SIGTERM
                self.world.hub.join(fiber, 30.0)
            planner.kill()

    def _json(self, name: str, call: Callable[[TubeStreamReader], Any]) -> str:
        return json.dumps(self._call(name, call))

    def _call(self, name: str, call: Callable[[TubeStreamReader], Any]) -> Any:
        reader, planner = self._reader, self.planner
        assert reader is not None
        assert planner is not None
        self._point(f"before {name}")
        if self.session.chances.planner_dies and self.world.hub.random.random() < self.session.chances.planner_dies:
            self.world.hub.at(self.world.hub.random.random() * 0.05, planner.kill)
        result = self._in(planner, lambda: call(reader))
        self._point(f"after {name}")
        return result

    def _in(self, process: Process, call: Callable[[], Any]) -> Any:
        fiber = process.run(call)
        process.ends.append(self._waker(fiber))
        if not process.dead:  # it may have died between two calls
            self.world.hub.join(fiber)
        if process.dead:
            raise PlannerGone(f"{process} died")
        if fiber.error is not None:
            raise fiber.error
        return fiber.result

    def _waker(self, fiber: Fiber) -> Callable[[], None]:
        def end() -> None:
            for waiter, token in fiber.waiters:
                self.world.hub.wake(waiter, token)

        return end

    def _point(self, name: str) -> None:
        self.session.point(name)
        self.world.hub.pass_by()


def _of_stream(reader: bytes, task: bytes) -> Iterator[Any]:
    return cast("Iterator[Any]", pickle.loads(reader).read(pickle.loads(task)))


def _rows(batches: Iterator[Any]) -> Iterator[Row]:
    for batch in batches:
        keys, values = batch.column("partitionKey").to_pylist(), batch.column("value").to_pylist()
        yield from map(Row, keys, values)
