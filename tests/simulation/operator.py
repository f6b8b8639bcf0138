"""Who runs the job: starts it whenever it does not run, and does what its errors say."""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.conditions import Conditions, JobSettings
from tests.simulation.faults import ACTIVE_SECONDS
from tests.simulation.hub import Fiber, Process
from tests.simulation.ingest import Settings, run_job
from tests.simulation.judge import Judge
from tests.simulation.own_query import run_own_query
from tests.simulation.spark import (
    Chances,
    CheckpointFiles,
    ConcurrentQuery,
    PlannerGone,
    Session,
    TaskFailed,
    WorkerDied,
)
from tests.simulation.stand_ins import Event
from tests.simulation.target import ConcurrentWrite
from tests.simulation.world import DiskFailure, World
from tubeclient.errors import DataLoss, TubeError

__all__ = ["Life", "Operator"]

GROUP = "g"
MOST_LIVES = 20
"""A job that has not read everything in so many after the last fault will not."""
STEPS_OF_A_LIFE = 40.0
EXPECTED = (TubeError, ConcurrentQuery, PlannerGone, TaskFailed, ConcurrentWrite, DiskFailure, WorkerDied)
"""Errors that a run may end with, besides those of the offsets table."""

_REMOVED = re.compile(r"version (\d+) of (\w+) \(RESTORE\) removed rows")


@dataclass
class Life:
    """One driver."""

    process: Process
    session: Session
    fiber: Fiber
    stop: Any
    steps_left: int | None
    """Until it dies."""
    since: float
    frozen: bool = False
    told: bool = False
    """Whether the operator has noted its end."""

    @property
    def over(self) -> bool:
        return self.fiber.done or self.process.dead

    @property
    def processes(self) -> list[Process]:
        """The driver's and its planner's."""
        query = self.session.query
        return [self.process, *([query.planner] if query is not None and query.planner is not None else [])]


class Operator:
    """Starts the job over and over, until all is read."""

    def __init__(self, world: World, judge: Judge, conditions: Conditions, rng: random.Random) -> None:
        self._world = world
        self._judge = judge
        self._conditions = conditions
        self._rng = rng
        self.settings = JobSettings.drawn(rng, conditions)
        self.checkpoint = CheckpointFiles()
        self.accepts_loss = False
        self.lives: list[Life] = []
        self.host = "driver"
        self.ends: dict[str, int] = {}
        """How often lives ended how."""
        self.done = False
        """Whether all faults are over."""
        self._before = 0
        """How many lives there were until then."""
        self.still: tuple[int, float] | None = None
        """In how many steps the driver stands still, and for how many seconds."""
        self.once_planned: list[Callable[[], None]] = []
        """What happens when the next batch is in the checkpoint's offset log."""
        self.last_call: Callable[[], None] = lambda: None
        """Has something sent to every partition, once all was read: it must be read too."""
        world.disk.on_step = self._step

    @property
    def newest(self) -> Life | None:
        return self.lives[-1] if self.lives and not self.lives[-1].over else None

    def start(self, files: CheckpointFiles) -> Life:
        """Start a driver."""
        world, rng, conditions = self._world, self._rng, self._conditions
        process = world.process("driver", f"driver{len(self.lives) % 3}")
        self.host = process.host
        stop = Event()
        session = Session(world, process, files, lambda what: self._step(process, what))
        if not self.done:
            session.chances = Chances(conditions.attempt_dies, conditions.speculates, conditions.planner_dies)
        dies = conditions.dies and not self.done and rng.random() < 0.7
        steps = int(rng.expovariate(1 / STEPS_OF_A_LIFE)) if dies else None
        run = self._ingest(session, stop) if conditions.ingests else self._own_query(session, stop)
        world.tell(f"{process} starts with {files.query_id}, {self.settings}, accepts a loss: {self.accepts_loss}")
        life = Life(process, session, process.run(run), stop, steps, world.hub.now)
        self.lives.append(life)
        return life

    @property
    def _interval_ms(self) -> int | None:
        return None if self.done else self._conditions.interval_ms

    @property
    def _options(self) -> dict[str, str]:
        return {**self.settings.options, **({"failOnDataLoss": "false"} if self.accepts_loss else {})}

    def _ingest(self, session: Session, stop: Any) -> Any:
        conditions = self._conditions
        settings = Settings(
            master_servers=self._world.cluster.addresses,
            consumer_group=GROUP,
            topics=conditions.topics,
            target="./{stream}" if conditions.streams else "./target",
            inlong_group="g" if conditions.streams else None,
            streams=self._streams(),
            offsets_table="./offsets" if conditions.offsets_table else None,
            bad_records="./bad" if conditions.bad_records else None,
            writer="tasks" if conditions.tasks_write else "spark",
            source_count=self.settings.source_count,
            max_offsets_per_trigger=self.settings.max_offsets_per_trigger,
            trigger="available-now" if self._interval_ms is None else f"{self._interval_ms}ms",
            source_options={**self._options, **({"payload": "auto"} if conditions.streams else {})},
        )
        return lambda: run_job(session, settings, stop)

    def _streams(self) -> tuple[str, ...]:
        """What the user chooses for a life. The last one has all."""
        seed = self._conditions.leaves_out
        rng = random.Random(f"{seed} {len(self.lives)}")
        return ("!s0",) if seed is not None and not self.done and rng.random() < 0.6 else ()

    def _own_query(self, session: Session, stop: Any) -> Any:
        conditions = self._conditions
        options = self.settings.source_options(
            self._world.cluster.addresses, GROUP, conditions.topics, table=conditions.offsets_table
        )
        interval = None if self._interval_ms is None else self._interval_ms / 1000
        return lambda: run_own_query(session, {**options, **self._options}, interval, stop)

    # What happens to drivers

    def _step(self, process: Process, what: str) -> None:
        """A driver is between two calls, or at a step of storage."""
        life = next((one for one in self.lives[-4:] if one.process is process), None)
        if life is None or self.done:
            return
        if what.startswith(("after offsets", "after the round")):
            while self.once_planned:
                self.once_planned.pop()()
        if life.steps_left is not None:
            life.steps_left -= 1
            if life.steps_left < 0:
                self._world.tell(f"{process} dies: {what}")
                process.kill()
        if self.still is not None and not life.frozen:
            steps, seconds = self.still
            self.still = (steps - 1, seconds) if steps else None
            if not steps:
                self._freeze(life, seconds, what)

    def _freeze(self, life: Life, seconds: float, what: str) -> None:
        life.frozen = True
        stopped = life.processes
        for process in stopped:
            process.stop()
        self._world.tell(f"{life.process} stands still for {seconds:.0f} s: {what}")

        def go_on() -> None:
            self._world.tell(f"{life.process} goes on")
            life.frozen = False
            for process in stopped:
                process.go_on()

        self._world.hub.at(seconds, go_on)

    def second(self, _: random.Random) -> None:
        """Somebody starts the job a second time."""
        self.start(self.checkpoint)

    def change_settings(self, rng: random.Random) -> None:
        """Of the next life."""
        self.settings = JobSettings.drawn(rng, self._conditions)

    # How lives end

    def _ended(self, life: Life) -> str:
        """Note how a life ended, and what follows from it for the next one."""
        error, life.told = life.fiber.error, True
        name = "killed" if life.process.dead else "well" if error is None else _condition(error)
        self.ends[name] = self.ends.get(name, 0) + 1
        self._world.tell(f"{life.process} ended: {name} {error or ''}")
        life.process.kill()
        if name in ("killed", "well") or error is None:
            return name
        cause = _cause(error)
        if isinstance(cause, DataLoss) or "[DATA_LOSS]" in str(cause):
            self._judge.loss_told(str(cause))
            self.accepts_loss = True
        elif getattr(cause, "condition", None) in ("TARGET_ROWS_UNKNOWN", "STREAMS_LEFT_BEHIND"):
            self._follow_advice(str(cause))
        self._check_expected(cause)
        return name

    def _check_expected(self, cause: BaseException) -> None:
        if not isinstance(cause, EXPECTED) and type(cause).__name__ not in ("OffsetsTableError", "SupersededRun"):
            self._judge.wrong("an error that nobody expects: " + "".join(traceback.format_exception(cause)))

    def check_all(self) -> None:
        """Look at the ends of drivers that nobody waited for."""
        for life in self.lives:
            error = life.fiber.error
            if not life.told and error is not None and not life.process.dead:
                self._check_expected(_cause(error))

    def _follow_advice(self, text: str) -> None:
        """Do what the error says: put the tables back."""
        for version, table in _REMOVED.findall(text):
            self._world.tell(f"the operator restores {table} to version {version}")
            self._judge.restored()
            self._world.target.table(table).restore(int(version))

    def operate(self) -> None:
        """Start the job whenever it does not run. Returns when it has ended well twice after all faults."""
        hub, rng = self._world.hub, self._rng
        clean = 0
        while True:
            if hub.now >= ACTIVE_SECONDS and not self.done:
                self._mend()
            life = self.start(self.checkpoint)
            while not life.over:
                hub.join(life.fiber, 0.5)
                if life.frozen and hub.now - life.since > 5.0 and rng.random() < 0.2:
                    break  # it is thought dead, and another one starts
                if hub.now >= ACTIVE_SECONDS and not self.done:
                    life.stop.set()
                    hub.join(life.fiber, 60.0)
                    break
            if life.over:
                clean = clean + 1 if self._ended(life) == "well" and self.done else 0
                if clean == 1:
                    self.last_call()
                if clean == 2:
                    return
            if self.done and len(self.lives) > self._before + MOST_LIVES:
                self._judge.wrong("the job does not come to an end")
                return
            hub.sleep(rng.choice((0.1, 1.0, 10.0)))

    def _mend(self) -> None:
        """All faults end."""
        self.done, self._before = True, len(self.lives)
        world = self._world
        world.cluster.start_missing()
        for machine in (*world.cluster.masters, *world.cluster.brokers.values()):
            machine.go_on()
        world.network.weather.breaks = world.network.weather.slow = 0.0
        world.network.heal()
        world.disk.fails = world.disk.slow = 0.0
        for life in self.lives:
            if not life.over:
                life.process.kill()
        world.tell("all is mended")


def _cause(error: BaseException) -> BaseException:
    """What a failed task failed with."""
    return error.__cause__ if isinstance(error, TaskFailed) and error.__cause__ is not None else error


def _condition(error: BaseException) -> str:
    cause = _cause(error)
    return str(getattr(cause, "condition", None) or type(cause).__name__)
