"""Faults in which a process stands still and goes on, as in a long collection of garbage or a move to another host."""

from __future__ import annotations

import time
from typing import Final

from tests.exactly_once.scene import LEASE_SECONDS, Scene, in_mid_round, state_of

__all__ = ["hold_up_driver", "hold_up_server", "hold_up_server_for_long"]

_SHORT: Final = (2.0, 12.0)
_LONG: Final = (LEASE_SECONDS + 3, LEASE_SECONDS + 10)


def hold_up_driver(scene: Scene) -> str:
    """The driver and its JVM stand still in a round, for less than a lease; the same driver goes on."""
    run = scene.job.run
    in_mid_round(scene)
    seconds = scene.rng.uniform(*_SHORT)
    with scene.job.standing_still():
        time.sleep(seconds)
        state = state_of(scene.job)
    assert scene.job.run is run
    return f"for {seconds:.1f} s with {state}"


def hold_up_server(scene: Scene) -> str:
    """A broker or the master stands still for some seconds; the embedded ones are one process, so all of them do."""
    return _hold_up_server(scene, _SHORT)


def hold_up_server_for_long(scene: Scene) -> str:
    """The same for longer than all leases: then the server goes on, and knows that it has lost everybody."""
    return _hold_up_server(scene, _LONG)


def _hold_up_server(scene: Scene, between: tuple[float, float]) -> str:
    server, seconds = scene.rng.choice((0, *sorted(scene.tube.brokers))), scene.rng.uniform(*between)
    state = state_of(scene.job)
    with scene.tube.standing_still(server):
        time.sleep(seconds)
    which = f"broker {server}" if server else "the master"
    return f"{which if scene.tube.name == 'apache' else 'all servers'}, for {seconds:.1f} s, {state}"
