"""What a fault may touch, and the moments at which it happens."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.conformance.cluster import Cluster
from tests.exactly_once.full_disk import Disk
from tests.exactly_once.job import Job
from tests.exactly_once.looking import end_of_sink
from tests.exactly_once.network import Network
from tests.exactly_once.processes import Found
from tests.exactly_once.spark_cluster import SparkCluster
from tests.exactly_once.watching import OrderWatch
from tests.front_door import Manner

__all__ = [
    "BATCH_SECONDS",
    "ENDED_SECONDS",
    "GOES_ON_SECONDS",
    "LEASE_SECONDS",
    "Fault",
    "Scene",
    "any_moment",
    "in_mid_batch",
    "in_table",
    "known",
    "one_of",
    "state_of",
    "until",
]

ENDED_SECONDS: Final = 150.0
BATCH_SECONDS: Final = 1.0
"""About as long as a batch takes from its plan to its commit."""
GOES_ON_SECONDS: Final = 300.0
LEASE_SECONDS: Final = 30.0
"""After so long without a word TubeMQ's master gives the group's nodes to somebody else."""


@dataclass(frozen=True)
class Scene:
    """Everything that a fault may touch."""

    tube: Cluster
    network: Network
    target_disk: Disk
    offsets_disk: Disk
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

    @contextmanager
    def without_broker(self, broker_id: int) -> Iterator[None]:
        """The broker is stopped for the length of the block, and nobody listens at its addresses."""
        with self.network.behaving(Manner.DEAD, f"broker {broker_id}"), self.tube.without_broker(broker_id):
            yield

    def restart_master(self) -> None:
        """All masters of TubeMQ; nobody listens at their addresses meanwhile."""
        with self.network.behaving(Manner.DEAD, *self.network.masters):
            self.tube.restart_master()


Fault: TypeAlias = Callable[[Scene], str]
"""Returns a description of what has happened. Batches have to go on afterwards."""


def one_of(scene: Scene, find: Callable[[], list[Found]], what: str) -> Found:
    """One of the processes of a kind, as soon as there is one."""
    found: list[Found] = []

    def there() -> bool:
        found[:] = find()
        return bool(found)

    scene.job.wait_for(there, what, poll_seconds=0.02)
    return scene.rng.choice(found)


def in_mid_batch(scene: Scene) -> str:
    """Wait for the beginning of a batch, and then for a part of what it may take."""
    job = scene.job
    before = job.planned
    job.wait_for(lambda: job.planned > max(before, job.committed), "a batch to begin")
    time.sleep(scene.rng.uniform(0, BATCH_SECONDS))
    return state_of(job)


def in_table(scene: Scene) -> None:
    """Return as soon as a batch is in the table, which is before Spark notes that it is complete."""
    job = scene.job
    version = job.version
    job.wait_for(lambda: job.version > version, "the next commit to the table", poll_seconds=0.001)


def until(moment: float) -> None:
    """Wait for a moment of the monotonic clock."""
    time.sleep(max(0.0, moment - time.monotonic()))


def any_moment(scene: Scene) -> None:
    """Wait for a part of what two batches may take."""
    time.sleep(scene.rng.uniform(0, 2 * BATCH_SECONDS))


def known(job: Job) -> str:
    """Say of the newest batch of a job that was killed who knows it."""
    if job.planned == job.committed:
        return f"batch {job.planned} complete"
    in_table = all(end_of_sink(job.table).get(key, -1) >= at for key, at in job.end_of(job.planned).items())
    return f"batch {job.planned} {'in the table, and unknown to Spark' if in_table else 'running'}"


def state_of(job: Job) -> str:
    return f"batch {job.planned} {'running' if job.planned > job.committed else 'complete'}"
