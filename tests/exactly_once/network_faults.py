"""Faults of the way between Spark's processes and TubeMQ, which goes through the doors of `Network`."""

from __future__ import annotations

import time
from typing import Final

from tests.conformance.cluster import ApacheCluster
from tests.exactly_once.scene import GOES_ON_SECONDS, LEASE_SECONDS, Scene, state_of
from tests.front_door import Manner

__all__ = ["cut_off", "cut_off_for_long", "fail_over", "slow_network"]

_SHORT: Final = (2.0, 12.0)
_LONG: Final = (LEASE_SECONDS + 3, LEASE_SECONDS + 10)
_SLOW_SECONDS: Final = (0.1, 0.3)


def cut_off(scene: Scene) -> str:
    """For some seconds nothing passes between Spark and some of the servers, in either direction, and no connection
    ends; then all that was sent arrives."""
    return _cut_off(scene, _SHORT)


def cut_off_for_long(scene: Scene) -> str:
    """The same for longer than the leases of nodes and readers."""
    return _cut_off(scene, _LONG)


def slow_network(scene: Scene) -> str:
    """All that passes between Spark and TubeMQ takes some tenths of a second, in each direction, for some rounds."""
    late = scene.rng.uniform(*_SLOW_SECONDS)
    network, job = scene.network, scene.job
    with network.behaving(Manner.LATE, *network.masters, *network.brokers, late_seconds=late):
        _rounds(scene, 3, "on a slow network")
    return f"{late * 1000:.0f} ms in each direction, {state_of(job)}"


def fail_over(scene: Scene) -> str:
    """The address of the master that is in use dies, falls silent, or becomes a standby's; the job goes on with another
    one. Where there are standbys, the active master itself is killed or stands still, and one of them takes over."""
    network, job = scene.network, scene.job
    if isinstance(scene.tube, ApacheCluster) and len(scene.tube.masters) > 1:
        silent = scene.rng.random() < 0.5
        with scene.tube.servers.without_active_master(silent=silent):
            _rounds(scene, 2, "with another master")
        return f"the active master {'stood still' if silent else 'was killed'}, {state_of(job)}"
    manner = scene.rng.choice((Manner.DEAD, Manner.SILENT, Manner.STANDBY))
    lost = network.master_in_use
    others = [name for name in network.masters if name != lost]
    asked = sum(map(network.asked, others))
    with network.behaving(manner, lost):
        job.wait_for(lambda: sum(map(network.asked, others)) > asked, "another master to be asked", GOES_ON_SECONDS)
        _rounds(scene, 2, f"without {lost}")
    return f"{lost} {manner.name.lower()}, {state_of(job)}"


def _rounds(scene: Scene, count: int, how: str) -> None:
    """Wait for so many further rounds to be in the table."""
    wanted = scene.job.rounds + count
    scene.job.wait_for(lambda: scene.job.rounds >= wanted, f"rounds {how}", GOES_ON_SECONDS)


def _cut_off(scene: Scene, between: tuple[float, float]) -> str:
    network = scene.network
    names = scene.rng.choice(
        (network.masters, network.brokers[:1], network.brokers[1:], network.masters + network.brokers)
    )
    seconds = scene.rng.uniform(*between)
    state = state_of(scene.job)
    with network.behaving(Manner.SILENT, *names):
        time.sleep(seconds)
    return f"{', '.join(names)}, for {seconds:.1f} s, {state}"
