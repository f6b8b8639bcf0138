"""One seed's run: a group's job over its lives, the operator who starts it again, producers, and faults."""

from __future__ import annotations

import gc
import json
import logging
import random
import re
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_source.offsets.offsets import Offsets
from tests.simulation.faults import ACTIVE_SECONDS, FAULTS, drawn
from tests.simulation.hub import Fiber, Process, TooLong
from tests.simulation.ingest import Records, run_job, set_world
from tests.simulation.judge import Judge
from tests.simulation.spark import (
    CheckpointFiles,
    Chances,
    ConcurrentQuery,
    PlannerGone,
    Session,
    TaskFailed,
    WorkerDied,
)
from tests.simulation.stand_ins import Event
from tests.simulation.target import ConcurrentWrite
from tests.simulation.world import Capture, DiskFailure, World
from tubeclient.errors import DataLoss, TubeError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.settings import IngestSettings

__all__ = ["Outcome", "Scenario", "simulate"]

GROUP = "g"
LIMIT_SECONDS = 4_000.0
LIMIT_STEPS = 600_000
STRATEGIES = ("modulo", "hash_modulo", "averagely", "consistent_hash", "sticky", "backlog")
NEEDS_NEW_CHECKPOINT = ("ROWS_WOULD_REPEAT", "ROWS_WOULD_BE_MISSING", "TARGET_ROWS_UNKNOWN")

EXPECTED = (TubeError, ConcurrentQuery, PlannerGone, TaskFailed, ConcurrentWrite, DiskFailure, WorkerDied)
"""Errors that a run may end with; OffsetsTableError too."""

_REMOVED = re.compile(r"version (\d+) of target \(RESTORE\) removed rows")


@dataclass
class Outcome:
    """How a seed ended."""

    seed: int
    wrongs: list[str]
    story: list[str]
    messages: int
    batches: int
    lives: int
    seconds: float
    """Of its own time."""
    steps: int
    ends: dict[str, int]
    """How often lives ended how."""


@dataclass
class _Life:
    """One driver."""

    process: Process
    session: Session
    fiber: Fiber
    stop: Any
    steps_left: int | None
    """Until it dies."""
    since: float
    frozen: bool = False
    processes: list[Process] = field(default_factory=list)


class Scenario:
    """A world with a job in it."""

    def __init__(
        self, seed: int, folder: Path, kinds: Sequence[str] = (), given: Mapping[str, Any] | None = None
    ) -> None:
        self.rng = rng = random.Random(seed)
        self._kinds = kinds
        self.world = World(rng.getrandbits(48), folder, rng.choice((1, 2, 2, 3)))
        set_world(self.world)
        self.judge = Judge(self.world, GROUP)
        self.topics = ("t",) if rng.random() < 0.6 else ("t", "u")
        shapes = {topic: (rng.choice((1, 1, 2)), rng.choice((1, 2, 3))) for topic in ("t", "u")}
        self.breaks = rng.choice((0.0, 0.0, 0.003, 0.02))
        self.slow = rng.choice((0.0, 0.0, 0.003, 0.02))
        self.attempt_dies = rng.choice((0.0, 0.0, 0.1, 0.3))
        self.speculates = rng.choice((0.0, 0.0, 0.2))
        self.planner_dies = rng.choice((0.0, 0.0, 0.01))
        self.bad_share = rng.choice((0.0, 0.0, 0.1))
        self.dies = rng.choice((False, True, True))
        """Whether drivers die between two calls, besides faults by time."""
        self.bad_records = self.bad_share > 0 or rng.random() < 0.2
        self.offsets_table = rng.random() < 0.85
        self.to_brokers = rng.random() < 0.3
        self.interval_ms = rng.choice((None, None, 0, 500, 3000))
        for name, value in (given or {}).items():
            assert hasattr(self, name), name
            setattr(self, name, value)
        for topic in self.topics:
            self.world.put_topic(topic, *shapes[topic])
        self.world.network.weather.breaks, self.world.network.weather.slow = self.breaks, self.slow
        self.settings: dict[str, Any] = {}
        self.change_settings(rng)
        self.checkpoint = CheckpointFiles()
        self.saved: list[CheckpointFiles] = []
        self.next_checkpoint = ""
        self.accepts_loss = False
        self.anew: dict[str, int] | None = None
        """With the newest checkpoint: where all topics begin anew, as the operator says."""
        self.lives: list[_Life] = []
        self.driver_host = "driver"
        self.ends: dict[str, int] = {}
        self.closed_stores: set[tuple[str, int, int]] = set()
        """Stores that producers leave alone until a loss there was noticed."""
        self.done = False
        self.still: tuple[int, float] | None = None
        """In how many steps the driver stands still, and for how long."""
        self.world.positions = self.planned
        self.world.disk.on_step = self._step
        self.capture = Capture(self._warned)

    # What faults do

    def a_store(self, rng: random.Random) -> tuple[str, int, int]:
        """A topic, a broker and a store."""
        topic = rng.choice(self.topics)
        config = self.world.cluster.catalogue.topic(topic)
        return topic, rng.choice(list(self.world.cluster.brokers)), rng.randrange(config.stores if config else 1)

    def planned(self) -> dict[PartitionKey, int]:
        """How far the newest batch of the newest checkpoint, or the target, reaches."""
        found: dict[PartitionKey, int] = {}
        record = self.world.target.record
        if record is not None:
            found.update(record.ends.as_dict())
        if self.checkpoint.offsets:
            for key, at in Offsets.parse(self.checkpoint.offsets[max(self.checkpoint.offsets)]).items():
                found[key] = max(at, found.get(key, 0))
        return found

    def lose_tail(self, rng: random.Random) -> None:
        topic, broker_id, store_id = self.a_store(rng)
        server = self.world.cluster.brokers[broker_id]
        if server.machine is None or self.world.cluster.catalogue.topic(topic) is None:
            return
        self.world.lose_tail(broker_id, topic, store_id, rng.choice((1, 3, 10)))
        self.world.hub.at(rng.choice((0.5, 5.0)), self.world.cluster.start_missing)
        # Filled past a position again between two looks a lost tail cannot be noticed: that is not promised.
        self.closed_stores.add((topic, broker_id, store_id))

    def renew_topic(self, rng: random.Random) -> None:
        topic, _, _ = self.a_store(rng)
        config = self.world.cluster.catalogue.topic(topic)
        if config is None or len(self.topics) < 2:
            return
        self.world.remove_topic(topic)
        for broker_id in self.world.cluster.brokers:
            for store_id in range(config.stores):
                self.closed_stores.add((topic, broker_id, store_id))
        self.world.hub.at(rng.choice((3.0, 30.0)), lambda: self.world.cluster.catalogue.put_topic(config))

    def change_settings(self, rng: random.Random) -> None:
        """Of the next life."""
        self.settings = {
            "source_count": rng.choice((1, 2, 2, 3)),
            "max_offsets_per_trigger": rng.choice((None, 3, 10, 40)),
            "source_options": {
                "assignmentStrategy": rng.choice(STRATEGIES),
                "retryLimit": rng.choice(("10s", "60s")),
                **({"backlogTakeover": "true", "backlogTakeoverMinRows": "2"} if rng.random() < 0.4 else {}),
                **({"maxRecordsPerPartition": "4"} if rng.random() < 0.3 else {}),
                **({"commitOffsetsToBroker": "true"} if self.to_brokers else {}),
                **({"offsetsTableMode": "strict"} if self.offsets_table and rng.random() < 0.3 else {}),
                **({"offsetCommitInterval": "5s"} if self.offsets_table and rng.random() < 0.2 else {}),
            },
        }

    def kill_driver(self) -> None:
        for life in self.lives[-1:]:
            self._tell(f"{life.process} is killed")
            life.process.kill()

    def stop_driver(self) -> None:
        for life in self.lives[-1:]:
            if not life.process.dead:
                self._tell(f"{life.process} is told to stop")
                life.stop.set()

    def _step(self, process: Process, what: str) -> None:
        """A driver is between two calls, or at a step of storage."""
        life = next((one for one in self.lives[-4:] if one.process is process), None)
        if life is None or self.done:
            return
        if life.steps_left is not None:
            life.steps_left -= 1
            if life.steps_left < 0:
                self._tell(f"{process} dies: {what}")
                process.kill()
        if self.still is not None and not life.frozen:
            steps, seconds = self.still
            self.still = (steps - 1, seconds) if steps else None
            if not steps:
                self._freeze(life, seconds, what)

    def freeze(self, steps: int, seconds: float) -> None:
        """The driver with its planner stands still, so many steps from now; the operator starts another after a
        while."""
        self.still = steps, seconds

    def _freeze(self, life: _Life, seconds: float, what: str) -> None:
        life.frozen = True
        query = life.session.query
        stopped = [life.process, *([query._planner] if query is not None and query._planner is not None else [])]
        for process in stopped:
            process.stop()
        self._tell(f"{life.process} stands still for {seconds:.0f} s: {what}")

        def go_on() -> None:
            self._tell(f"{life.process} goes on")
            life.frozen = False
            for process in stopped:
                process.go_on()

        self.world.hub.at(seconds, go_on)

    def start_second(self, rng: random.Random) -> None:
        """Somebody starts the job a second time, with the same checkpoint or a new one."""
        if self.done:
            return
        files = self.checkpoint if rng.random() < 0.5 else CheckpointFiles()
        if files is not self.checkpoint:
            self.checkpoint, self.anew = files, None
        self._start(files)

    def restore_target(self, rng: random.Random) -> None:
        versions = self.world.target.versions
        if len(versions) > 1:
            number = rng.randrange(max(0, len(versions) - 6), len(versions))
            self._tell(f"the target is restored to version {number}")
            self.judge.restored()
            self.world.target.restore(number)

    def jump_clock(self, seconds: float) -> None:
        for life in self.lives[-1:]:
            life.process.skew_seconds += seconds
            query = life.session.query
            if query is not None and query._planner is not None:
                query._planner.skew_seconds += seconds

    # Producers

    def _feed(self) -> None:
        rng, world = self.rng, self.world
        for _ in range(rng.choice((0, 1, 3, 8))):
            topic, broker_id, store_id = self.a_store(rng)
            config = world.cluster.catalogue.topic(topic)
            if config is None or not self._open(topic, broker_id, store_id):
                continue
            partition_id = config.partition_ids_of(store_id)[rng.randrange(config.partitions)]
            world.send(broker_id, topic, partition_id, bad=rng.random() < self.bad_share)
        if world.hub.now < ACTIVE_SECONDS:
            world.hub.at(rng.uniform(0.1, 4.0), self._feed)

    def _open(self, topic: str, broker_id: int, store_id: int) -> bool:
        """Whether producers may write: not where a loss is still to be noticed."""
        if (topic, broker_id, store_id) not in self.closed_stores:
            return True
        server = self.world.cluster.brokers[broker_id]
        if server.machine is None:
            return False
        end = server.store(topic, store_id).max_offset
        ahead = any(
            at > end
            for key, at in self.planned().items()
            if (key.topic, key.broker_id, key.store.store_id) == (topic, broker_id, store_id)
        )
        if not ahead:
            self.closed_stores.discard((topic, broker_id, store_id))
        return not ahead

    # The operator

    def _start(self, files: CheckpointFiles) -> _Life:
        world = self.world
        process = world.process("driver", "driver" if not self.lives else f"driver{len(self.lives) % 2 or ''}")
        self.driver_host = process.host
        options = dict(self.settings["source_options"])
        if self.accepts_loss:
            options["failOnDataLoss"] = "false"
        settings = IngestSettings(
            master_servers=world.cluster.addresses,
            consumer_group=GROUP,
            topics=self.topics,
            target="target",
            checkpoint="checkpoint",
            offsets_table="offsets" if self.offsets_table else None,
            records=Records(),
            bad_records="letters" if self.bad_records else None,
            source_count=self.settings["source_count"],
            max_offsets_per_trigger=self.settings["max_offsets_per_trigger"],
            begin_anew=self.topics if self.anew is not None else (),
            starting_offsets=None if self.anew is None else json.dumps({**self.anew, "default": "earliest"}),
            trigger="available-now" if self.interval_ms is None or self.done else f"{self.interval_ms}ms",
            source_options=options,
            stop_timeout_s=10.0,
        )
        stop = Event()
        session = Session(world, process, files, lambda what: self._step(process, what))
        if not self.done:
            session.chances = Chances(self.attempt_dies, self.speculates, self.planner_dies)
        dies = self.dies and not self.done and self.rng.random() < 0.7
        steps = int(self.rng.expovariate(1 / 40.0)) if dies else None
        self._tell(f"{process} starts with {files.query_id}, {settings.trigger}, {dict(options)}")
        fiber = process.run(lambda: run_job(session, settings, stop))
        life = _Life(process, session, fiber, stop, steps, world.hub.now)
        self.lives.append(life)
        return life

    def _ended(self, life: _Life) -> str:
        """Note how a life ended, and what follows from it for the next one."""
        error = life.fiber.error
        name = "killed" if life.process.dead else "well" if error is None else _condition(error)
        self.ends[name] = self.ends.get(name, 0) + 1
        self._tell(f"{life.process} ended: {name} {error or ''}")
        life.process.kill()
        if name in ("killed", "well") or error is None:
            return name
        cause = _cause(error)
        if isinstance(cause, DataLoss):
            self.judge.loss_told(str(cause))
            self.accepts_loss = True
        elif getattr(cause, "condition", None) in NEEDS_NEW_CHECKPOINT:
            self._follow_advice(str(cause))
        elif not isinstance(cause, EXPECTED) and type(cause).__name__ not in ("OffsetsTableError", "SupersededRun"):
            text = "".join(traceback.format_exception(cause))
            self.judge.wrong(f"an error that nobody expects: {text}")
        return name

    def _follow_advice(self, text: str) -> None:
        """Do what the error says: the target's rows and the checkpoint do not fit."""
        self.next_checkpoint = "new"
        removed = _REMOVED.match(text.partition("] ")[2] or text)
        if removed is not None:
            self._tell(f"the operator restores the target to version {removed[1]}")
            self.judge.restored()
            self.world.target.restore(int(removed[1]))
        elif "--begin-anew" in text and self.world.target.record is not None:
            ends = self.world.target.record.ends.as_dict()
            for key in list(ends):
                server = self.world.cluster.brokers[key.broker_id]
                config = self.world.cluster.catalogue.topic(key.topic)
                if config is None or not config.has_partition(key.partition_id):
                    del ends[key]
                elif server.machine is not None:
                    ends[key] = min(ends[key], server.store(key.topic, key.store.store_id).max_offset)
            self.anew = {str(key): at for key, at in ends.items()}
            self._tell(f"the operator begins all topics anew, at {self.anew}")

    def _operate(self) -> None:
        """Start the job whenever it does not run; runs as a fiber of its own process."""
        hub, rng = self.world.hub, self.rng
        clean = 0
        while True:
            if hub.now >= ACTIVE_SECONDS and not self.done:
                self._mend()
            self._take_checkpoint()
            life = self._start(self.checkpoint)
            while not life.fiber.done and not life.process.dead:
                hub.join(life.fiber, 0.5)
                if life.frozen and hub.now - life.since > 5.0 and rng.random() < 0.2:
                    break  # it is thought dead, and another one starts
                if hub.now >= ACTIVE_SECONDS and not self.done:
                    life.stop.set()
                    hub.join(life.fiber, 60.0)
                    break
            if life.fiber.done or life.process.dead:
                name = self._ended(life)
                clean = clean + 1 if self.done and name == "well" else 0
                if clean == 2:
                    return
            if self.done and len(self.lives) > 60:
                self.judge.wrong("the job does not come to an end")
                return
            hub.sleep(rng.choice((0.1, 1.0, 10.0)))

    def _take_checkpoint(self) -> None:
        """What was done to the checkpoint between two lives."""
        if self.next_checkpoint == "new":
            self.checkpoint = CheckpointFiles()
        elif self.next_checkpoint == "old" and self.saved and self.anew is not None:
            pass  # nobody puts back a checkpoint and begins anew at once
        elif self.next_checkpoint == "old" and self.saved:
            self.checkpoint = self.rng.choice(self.saved).copy()
            self._tell("the checkpoint is put back")
        if self.checkpoint.commits:
            self.anew = None
        self.next_checkpoint = ""
        self.saved.append(self.checkpoint.copy())

    def _mend(self) -> None:
        """All faults end."""
        self.done = True
        world = self.world
        world.cluster.start_missing()
        for machine in (*world.cluster.masters, *world.cluster.brokers.values()):
            machine.go_on()
        world.network.weather.breaks = world.network.weather.slow = 0.0
        world.network.heal()
        world.disk.fails = world.disk.slow = 0.0
        for life in self.lives:
            if not life.process.dead and not life.fiber.done:
                life.process.kill()
        self._tell("all is mended")

    def run(self) -> None:
        """Let it all happen."""
        hub = self.world.hub
        for _ in range(self.rng.choice((0, 10, 40))):
            topic, broker_id, store_id = self.a_store(self.rng)
            config = self.world.cluster.catalogue.topic(topic)
            if config is not None:
                partition_id = config.partition_ids_of(store_id)[self.rng.randrange(config.partitions)]
                self.world.send(broker_id, topic, partition_id)
        hub.at(0.0, self._feed)
        for fault in drawn(self.rng, self._kinds):
            hub.at(fault.at_seconds, lambda fault=fault: self._fault(fault.name))  # type: ignore[misc]
        operator = self.world.process("operator").run(self._operate)
        try:
            hub.run(lambda: operator.done, LIMIT_SECONDS, LIMIT_STEPS)
        except TooLong as error:
            self.judge.wrong(f"{error}; last: {self.world.story[-1:]}")
        if operator.error is not None:
            self.judge.wrong("the operator failed: " + "".join(traceback.format_exception(operator.error)))
        if not self.judge.wrongs:
            self.judge.final()

    def _warned(self, text: str) -> None:
        """The product logs a warning."""
        if "failOnDataLoss is false" in text or text.startswith("lost and skipped"):
            if not self.accepts_loss:
                self.judge.wrong(f"a loss that nobody has accepted is only a warning: {text}")
            self.judge.loss_told(text)

    def _fault(self, name: str) -> None:
        if not self.done:
            self._tell(f"fault: {name}")
            FAULTS[name][0](self, self.rng)

    def _tell(self, text: str) -> None:
        self.world.tell(text)


def _cause(error: BaseException) -> BaseException:
    """What a failed task failed with."""
    return error.__cause__ if isinstance(error, TaskFailed) and error.__cause__ is not None else error


def _condition(error: BaseException) -> str:
    cause = _cause(error)
    return str(getattr(cause, "condition", None) or type(cause).__name__)


def simulate(seed: int, kinds: Sequence[str] = (), given: Mapping[str, Any] | None = None) -> Outcome:
    """Run a seed to its end, in a folder that is gone afterwards. With faults of `kinds` only, and attributes of the
    scenario as `given`, if they are not the seed's."""
    gc.collect()
    gc.disable()
    root = logging.getLogger()
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        scenario = Scenario(seed, Path(folder), kinds, given)
        root.addHandler(scenario.capture)
        try:
            scenario.run()
        finally:
            root.removeHandler(scenario.capture)
            scenario.world.cluster.close()
            gc.enable()
    world = scenario.world
    return Outcome(
        seed,
        scenario.judge.wrongs,
        world.story,
        len(world.sent),
        len(world.target.versions),
        len(scenario.lives),
        world.hub.now,
        world.hub.steps,
        scenario.ends,
    )


def _fast_folder() -> str | None:
    shared = Path("/dev/shm")  # noqa: S108 - files in memory where there are such
    return str(shared) if shared.is_dir() else None
