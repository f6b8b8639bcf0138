"""What goes wrong in a run, and when: drawn from its seed before it begins."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario

__all__ = ["FAULTS", "Fault", "drawn"]

ACTIVE_SECONDS = 60.0
"""How long things go wrong; then all is mended, and the rest is read."""


class Fault(NamedTuple):
    """Something that happens at a moment."""

    at_seconds: float
    name: str


def _stand_still(run: Scenario, rng: random.Random) -> None:
    """The driver's machine stands still, perhaps past its leases, and goes on."""
    run.operator.still = int(rng.expovariate(1 / 15.0)), rng.choice((2.0, 20.0, 35.0, 60.0))


def _broker_restarts(run: Scenario, rng: random.Random) -> None:
    broker = rng.choice(list(run.world.cluster.brokers.values()))
    if broker.machine is not None:
        broker.kill(clean=rng.random() < 0.5)
        run.world.hub.at(rng.choice((0.5, 5.0, 25.0)), run.world.cluster.start_missing)


def _broker_stands_still(run: Scenario, rng: random.Random) -> None:
    broker = rng.choice(list(run.world.cluster.brokers.values()))
    broker.stop()
    run.world.hub.at(rng.choice((1.0, 10.0, 40.0)), broker.go_on)


def _lost_tail(run: Scenario, rng: random.Random) -> None:
    _now_or_under_a_read(run, rng, lambda: run.lose_tail(rng))


def _retention(run: Scenario, rng: random.Random) -> None:
    def expire() -> None:
        topic, broker_id, store_id = run.a_store(rng)
        run.world.expire(broker_id, topic, store_id, rng.choice((0.2, 0.6, 1.0)))

    _now_or_under_a_read(run, rng, expire)


def _now_or_under_a_read(run: Scenario, rng: random.Random, loses: Callable[[], None]) -> None:
    """Half of the losses come when a batch is planned and nothing of it is read."""
    if rng.random() < 0.5:
        loses()
    else:
        run.operator.once_planned.append(loses)


def _more_partitions(run: Scenario, rng: random.Random) -> None:
    topic, _, _ = run.a_store(rng)
    config = run.world.cluster.catalogue.topic(topic)
    if config is not None:
        stores, partitions = config.stores + (rng.random() < 0.3), config.partitions + (rng.random() < 0.7)
        run.world.cluster.catalogue.grow_topic(topic, stores, partitions)


def _topic_comes_anew(run: Scenario, rng: random.Random) -> None:
    run.renew_topic(rng)


def _settings_change(run: Scenario, rng: random.Random) -> None:
    run.operator.change_settings(rng)


def _second_driver(run: Scenario, rng: random.Random) -> None:
    run.operator.second(rng)


def _target_restored(run: Scenario, rng: random.Random) -> None:
    run.restore_target(rng)


def _target_maintained(run: Scenario, _: random.Random) -> None:
    run.world.target.optimize()


def _parted(run: Scenario, rng: random.Random) -> None:
    hosts = ["m1", "m2", *(broker.host for broker in run.world.cluster.brokers.values())]
    one, other = run.operator.host, rng.choice(hosts)
    if rng.random() < 0.3:
        one = rng.choice(("worker0", "worker1"))
    run.world.network.part(one, other)
    run.world.hub.at(rng.choice((1.0, 9.0, 33.0)), lambda: run.world.network.rejoin(one, other))


def _clock_jumps(run: Scenario, rng: random.Random) -> None:
    run.world.jump_clock(run.operator.host, rng.choice((-3600.0, -2.0, 1.0, 86_400.0)))


def _master_restarts(run: Scenario, rng: random.Random) -> None:
    if rng.random() < 0.5:
        run.world.cluster.restart_master()
    else:
        run.world.cluster.fail_over()
        run.world.hub.at(10.0, run.world.cluster.start_missing)


def _storage_fails(run: Scenario, rng: random.Random) -> None:
    disk = run.world.disk
    disk.fails, disk.slow = rng.choice((0.0, 0.1, 0.5)), rng.choice((0.1, 0.5))

    def mend() -> None:
        disk.fails = disk.slow = 0.0

    run.world.hub.at(rng.choice((2.0, 15.0)), mend)


def _driver_dies(run: Scenario, _: random.Random) -> None:
    life = run.operator.newest
    if life is not None:
        life.process.kill()


def _job_stops(run: Scenario, _: random.Random) -> None:
    life = run.operator.newest
    if life is not None:
        life.stop.set()


FAULTS: dict[str, tuple[Callable[[Scenario, random.Random], None], float]] = {
    "the driver dies": (_driver_dies, 3.0),
    "the job is stopped": (_job_stops, 1.0),
    "the driver stands still": (_stand_still, 1.5),
    "a second driver": (_second_driver, 1.0),
    "a broker restarts": (_broker_restarts, 1.5),
    "a broker stands still": (_broker_stands_still, 0.7),
    "a broker loses its tail": (_lost_tail, 0.7),
    "retention": (_retention, 0.7),
    "more partitions": (_more_partitions, 0.7),
    "a topic comes anew": (_topic_comes_anew, 0.3),
    "settings change": (_settings_change, 1.0),
    "the target is restored": (_target_restored, 0.5),
    "the target is maintained": (_target_maintained, 0.3),
    "the network is parted": (_parted, 1.0),
    "a clock jumps": (_clock_jumps, 0.5),
    "the master restarts": (_master_restarts, 0.8),
    "storage fails": (_storage_fails, 0.7),
}
"""By name: what it does, and how often it is drawn."""


def drawn(rng: random.Random, kinds: Sequence[str] = ()) -> list[Fault]:
    """The faults of a run: of a few kinds only, so that they meet each other often. `kinds` says of which."""
    count = rng.choice((4, 8)) if kinds else rng.choice((0, 2, 4, 8))
    chosen = kinds or rng.sample(sorted(FAULTS), rng.randint(2, 6))
    weights = [FAULTS[kind][1] for kind in chosen]
    return sorted(Fault(rng.uniform(0.5, ACTIVE_SECONDS * 0.8), rng.choices(chosen, weights)[0]) for _ in range(count))
