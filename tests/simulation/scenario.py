"""One seed's run: a world, a group's job with its operator, producers, faults, and the judge."""

from __future__ import annotations

import gc
import logging
import random
import re
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spark_source.offsets.offsets import Offsets
from tests.simulation.conditions import Conditions
from tests.simulation.faults import ACTIVE_SECONDS, FAULTS, drawn
from tests.simulation.hub import TooLong
from tests.simulation.ingest import set_world
from tests.simulation.judge import Judge
from tests.simulation.operator import GROUP, Operator
from tests.simulation.world import Capture, World
from tubeclient.keys import PartitionKey

__all__ = ["Outcome", "Scenario", "simulate"]

LIMIT_SECONDS = 4_000.0
_ENTERED = re.compile(r"partition \S+ was added at \d+, but the broker holds it only from")
LIMIT_STEPS = 600_000


@dataclass
class Outcome:
    """How a seed ended."""

    seed: int
    wrongs: list[str]
    story: list[str]
    messages: int
    commits: int
    """Of the target."""
    lives: int
    """Of drivers."""
    seconds: float
    """Of its own time."""
    steps: int
    ends: dict[str, int]
    """How often lives ended how."""


class Scenario:
    """A world with a job in it."""

    def __init__(self, seed: int, folder: Path, kinds: Sequence[str], given: Mapping[str, Any]) -> None:
        self.rng = random.Random(seed)
        drawn_now = Conditions.drawn(self.rng)
        streams = random.Random(f"{seed} streams").choice((0, 0, 2, 4)) if drawn_now.ingests else 0
        tasks_write = random.Random(f"{seed} writer").random() < 0.6
        is_iceberg = random.Random(f"{seed} format").random() < 0.4
        leaves_out = seed if streams and random.Random(f"{seed} leaves out").random() < 0.4 else None
        drawn_now = replace(drawn_now, streams=streams, tasks_write=tasks_write, is_iceberg=tasks_write and is_iceberg)
        drawn_now = replace(drawn_now, leaves_out=leaves_out)
        self.conditions = replace(drawn_now, **given)
        self._kinds = kinds
        self.world = World(self.rng.getrandbits(48), folder, self.conditions.brokers, self.conditions.streams)
        self.world.target.is_iceberg = self.conditions.is_iceberg
        set_world(self.world)
        for topic in self.conditions.topics:
            self.world.put_topic(topic, *self.conditions.shapes[topic])
        weather = self.world.network.weather
        weather.breaks, weather.slow = self.conditions.breaks, self.conditions.slow
        self.judge = Judge(self.world, GROUP)
        self.operator = Operator(self.world, self.judge, self.conditions, self.rng)
        self.operator.last_call = self._send_to_all
        self.world.positions = self.planned
        self.world.has_begun = self._has_begun
        self.capture = Capture(self._warned)
        self._closed: set[tuple[str, int, int]] = set()
        """Stores that producers leave alone until a loss there was noticed."""

    # What faults do

    def a_store(self, rng: random.Random) -> tuple[str, int, int]:
        """A topic, a broker and a store."""
        topic = rng.choice(self.conditions.topics)
        config = self.world.cluster.catalogue.topic(topic)
        return topic, rng.choice(list(self.world.cluster.brokers)), rng.randrange(config.stores if config else 1)

    def planned(self) -> dict[PartitionKey, int]:
        """How far any table reaches, or the newest batch of the own query's checkpoint."""
        offsets = self.operator.checkpoint.offsets
        found: dict[PartitionKey, int] = {}
        for record in self.world.target.records:
            found.update({key: max(at, found.get(key, 0)) for key, at in record.ends.items()})
        if offsets:
            for key, at in Offsets.parse(offsets[max(offsets)]).items():
                found[key] = max(at, found.get(key, 0))
        return found

    def _has_begun(self) -> bool:
        """Spark's checkpoint has the end of a first batch, and not its start: that is asked for again."""
        is_kept = self.conditions.offsets_table or self.world.target.record is not None
        return is_kept or bool(self.operator.checkpoint.commits)

    def lose_tail(self, rng: random.Random) -> None:
        topic, broker_id, store_id = self.a_store(rng)
        server = self.world.cluster.brokers[broker_id]
        if server.machine is None or self.world.cluster.catalogue.topic(topic) is None:
            return
        self.judge.lost(topic)
        self.world.lose_tail(broker_id, topic, store_id, rng.choice((1, 3, 10)))
        self.world.hub.at(rng.choice((0.5, 5.0)), self.world.cluster.start_missing)
        # Filled past a position again between two looks a lost tail cannot be noticed: that is not promised.
        self._closed.add((topic, broker_id, store_id))

    def renew_topic(self, rng: random.Random) -> None:
        topic, _, _ = self.a_store(rng)
        config = self.world.cluster.catalogue.topic(topic)
        if config is None or len(self.conditions.topics) < 2:
            return
        self.judge.lost(topic)
        self.world.remove_topic(topic)
        for broker_id in self.world.cluster.brokers:
            self._closed.update((topic, broker_id, store_id) for store_id in range(config.stores))
        self.world.hub.at(rng.choice((3.0, 30.0)), lambda: self.world.cluster.catalogue.put_topic(config))

    def restore_target(self, rng: random.Random) -> None:
        table = self.world.target.a_table(rng)
        versions = table.versions
        if len(versions) > 1 and self.conditions.ingests:
            number = rng.randrange(max(0, len(versions) - 6), len(versions))
            self.world.tell(f"{table.name} is restored to version {number}")
            self.judge.restored()
            table.restore(number)

    # Producers

    def _send(self) -> None:
        topic, broker_id, store_id = self.a_store(self.rng)
        config = self.world.cluster.catalogue.topic(topic)
        if config is not None and self._is_open(topic, broker_id, store_id):
            partition_id = config.partition_ids_of(store_id)[self.rng.randrange(config.partitions)]
            bad = self.rng.random() < self.conditions.bad_share
            self.world.send(broker_id, topic, partition_id, bad=bad)

    def _feed(self) -> None:
        if self.operator.done:
            return
        for _ in range(self.rng.choice((0, 1, 3, 8))):
            self._send()
        if self.world.hub.now < ACTIVE_SECONDS:
            self.world.hub.at(self.rng.uniform(0.1, 4.0), self._feed)

    def _send_to_all(self) -> None:
        for topic in self.conditions.topics:
            config = self.world.cluster.catalogue.topic(topic)
            for partition_id in config.partition_ids() if config is not None else ():
                for broker_id in self.world.cluster.brokers:
                    self.world.send(broker_id, topic, partition_id)

    def _is_open(self, topic: str, broker_id: int, store_id: int) -> bool:
        """Whether producers may write: not where a loss is still to be noticed."""
        if (topic, broker_id, store_id) not in self._closed:
            return True
        server = self.world.cluster.brokers[broker_id]
        if server.machine is None:
            return False
        end = server.store(topic, store_id).max_offset
        ahead = any(
            at > end
            for key, at in (*self.planned().items(), *self.world.in_round.items())
            if (key.topic, key.broker_id, key.store.store_id) == (topic, broker_id, store_id)
        )
        if not ahead:
            self._closed.discard((topic, broker_id, store_id))
        return not ahead

    # The run

    def run(self) -> None:
        """Let it all happen."""
        hub, judge = self.world.hub, self.judge
        for _ in range(self.rng.choice((0, 10, 40))):
            self._send()
        hub.at(0.0, self._feed)
        for fault in drawn(self.rng, self._kinds):
            hub.at(fault.at_seconds, lambda fault=fault: self._fault(fault.name))  # type: ignore[misc]
        operator = self.world.process("operator").run(self.operator.operate)
        try:
            hub.run(lambda: operator.done, LIMIT_SECONDS, LIMIT_STEPS)
        except TooLong as error:
            judge.wrong(f"{error}; last: {self.world.story[-1:]}")
        if operator.error is not None:
            judge.wrong("the operator failed: " + "".join(traceback.format_exception(operator.error)))
        self.operator.check_all()
        if not judge.wrongs:
            judge.final()

    def _warned(self, text: str) -> None:
        """The product logs a warning."""
        if "failOnDataLoss is false" in text or text.startswith("lost and skipped"):
            if not self.operator.accepts_loss:
                self.judge.wrong(f"a loss that nobody has accepted is only a warning: {text}")
            self.judge.loss_told(text)
        elif text.startswith("the query ends because failOnDataLoss is true") or _ENTERED.match(text):
            self.judge.loss_told(text)

    def _fault(self, name: str) -> None:
        if not self.operator.done:
            self.world.tell(f"fault: {name}")
            FAULTS[name][0](self, self.rng)


def simulate(seed: int, kinds: Sequence[str] = (), given: Mapping[str, Any] | None = None) -> Outcome:
    """Run a seed to its end, in a folder that is gone afterwards. With faults of `kinds` only, and conditions as
    `given`, if they are not the seed's."""
    gc.collect()
    gc.disable()
    root = logging.getLogger()
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        scenario = Scenario(seed, Path(folder), kinds, given or {})
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
        len(scenario.operator.lives),
        world.hub.now,
        world.hub.steps,
        scenario.operator.ends,
    )


def _fast_folder() -> str | None:
    """Where files are in memory."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None
