"""What a fault may touch, and the moments at which it happens."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.conformance.cluster import Cluster
from tests.exactly_once.job import Job
from tests.exactly_once.looking import end_of_sink, kept
from tests.exactly_once.order import OrderWatch
from tests.exactly_once.processes import Found
from tests.exactly_once.spark_cluster import SparkCluster

__all__ = [
    "ENDED_SECONDS",
    "GOES_ON_SECONDS",
    "LEASE_SECONDS",
    "ROUND_SECONDS",
    "Fault",
    "Scene",
    "in_mid_round",
    "in_table",
    "one_of",
    "state_of",
    "until",
]

ENDED_SECONDS: Final = 150.0
ROUND_SECONDS: Final = 1.0
"""About as long as a round takes from its plan to its commit."""
GOES_ON_SECONDS: Final = 300.0
LEASE_SECONDS: Final = 30.0
"""After so long without a word TubeMQ's master gives the group's nodes to somebody else."""


@dataclass(frozen=True)
class Scene:
    """Everything that a fault may touch."""

    tube: Cluster
    spark: SparkCluster
    job: Job
    order: OrderWatch
    rng: random.Random
    down_seconds: float = 60.0
    """How long at least a broker stays down, where it does."""

    def kill(self) -> None:
        """SIGKILL for the driver, and a look at what it left behind."""
        self.job.kill()
        self.order.after_kill()


Fault: TypeAlias = Callable[[Scene], str]
"""Returns a description of what has happened. Rounds have to go on afterwards."""


def one_of(scene: Scene, find: Callable[[], list[Found]], what: str) -> Found:
    """One of the processes of a kind, as soon as there is one."""
    found: list[Found] = []

    def there() -> bool:
        found[:] = find()
        return bool(found)

    scene.job.wait_for(there, what, poll_seconds=0.02)
    return scene.rng.choice(found)


def in_mid_round(scene: Scene) -> str:
    """Wait for the end of a round, and then for a part of what the next one may take, which begins at once."""
    in_table(scene)
    time.sleep(scene.rng.uniform(0, ROUND_SECONDS))
    return state_of(scene.job)


def in_table(scene: Scene) -> None:
    """Return as soon as a round is in the table, which is before the offsets table has it."""
    job = scene.job
    version = job.version
    job.wait_for(lambda: job.version > version, "the next commit to the table", poll_seconds=0.001)


def until(moment: float) -> None:
    """Wait for a moment of the monotonic clock."""
    time.sleep(max(0.0, moment - time.monotonic()))


def state_of(job: Job) -> str:
    """Say of the newest round in the table who knows it."""
    number, ends = job.rounds, end_of_sink(job.table)
    table, _ = kept(job.offsets_table)
    complete = all(table.get(key, -1) >= at for key, at in ends.items())
    return f"round {number} {'complete' if complete else 'in the table, and not in the offsets table'}"
