"""The faults, one function each. Each returns a description of the fault once it has happened; the script checks that
rounds continue afterwards."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from tests.exactly_once.looking import Positions, end_of_sink, newest_commit_of
from tests.exactly_once.processes import Found, send_signal
from tests.exactly_once.scene import (
    ENDED_SECONDS,
    GOES_ON_SECONDS,
    LEASE_SECONDS,
    ROUND_SECONDS,
    Fault,
    Scene,
    in_mid_round,
    in_table,
    one_of,
    state_of,
    until,
)

__all__ = [
    "DRIVER_FAULTS",
    "FAULTS",
    "LONG_FAULTS",
    "OTHER_FAULTS",
    "broker_stays_down",
    "kill_in_first_round",
    "zombie_driver",
]


def kill_in_first_round(scene: Scene) -> str:
    """SIGKILL for the driver in its very first round, after the commit that says where the group begins; and a new
    start."""
    job = scene.job
    job.wait_for(lambda: job.rounds, "the first commit")
    scene.kill()
    assert job.rounds == 1, "the first round was in the table before the driver could be killed"
    job.start()
    return "in the first round"


def kill_executor(scene: Scene) -> str:
    """SIGKILL in the middle of a round; Spark starts another one."""
    return _stop_in_round(scene, scene.spark.executors, "an executor", 0.5, 2, signal.SIGKILL)


def kill_python_worker(scene: Scene) -> str:
    """SIGKILL in the middle of a round; Spark runs its task again."""
    return _stop_in_round(scene, scene.spark.python_workers, "a Python worker", 0.5, 2, signal.SIGKILL)


def hold_up_python_worker(scene: Scene) -> str:
    """Its task becomes the slow one that speculation is for, and goes on when another attempt was first."""
    return _stop_in_round(scene, scene.spark.python_workers, "a Python worker", 4, 7, signal.SIGCONT)


def restart_master(scene: Scene) -> str:
    """TubeMQ's, which forgets the group's nodes and the producers."""
    scene.tube.servers.restart_master()
    return state_of(scene.job)


def restart_broker(scene: Scene) -> str:
    """A clean stop of one of the brokers, and a start some seconds later."""
    broker_id = scene.rng.choice(sorted(scene.tube.brokers))
    seconds = scene.rng.uniform(0, 4)
    with scene.tube.without_broker(broker_id):
        time.sleep(seconds)
    return f"broker {broker_id}, away for {seconds:.1f} s more than it takes, {state_of(scene.job)}"


def stop_driver(scene: Scene) -> str:
    """SIGTERM in the middle of a round, the job's own end, and a new start."""
    state = in_mid_round(scene)
    scene.job.stop()
    scene.order.after_stop()
    scene.job.start()
    return state


def kill_driver(scene: Scene) -> str:
    """SIGKILL in the middle of a round, and a new start."""
    state = in_mid_round(scene)
    scene.kill()
    scene.job.start()
    return state


def kill_driver_between_commits(scene: Scene) -> str:
    """SIGKILL as soon as a round is in the table, which is before it is in the offsets table; and a new start."""
    in_table(scene)
    scene.kill()
    state = state_of(scene.job)
    scene.job.start()
    return state


def zombie_driver(scene: Scene) -> str:
    """SIGSTOP for the driver in the middle of a round, for longer than the group's lease. A second one takes over, with
    the same table. Then the first goes on: it must end, and without a commit.
    """
    job = scene.job
    job.wait_for(lambda: job.run_id, "a commit of the driver")
    in_table(scene)
    time.sleep(scene.rng.uniform(0, ROUND_SECONDS / 2))
    zombie, stopped = job.set_aside(), time.monotonic()
    state = state_of(job)
    try:
        job.start()
        job.wait_for(lambda: job.run_id, "a round of the second driver", GOES_ON_SECONDS)
        until(stopped + LEASE_SECONDS)
        seconds, committed = time.monotonic() - stopped, newest_commit_of(job.table, zombie.run_id)
        zombie.go_on()
        status = zombie.wait(ENDED_SECONDS)
        words = zombie.last_words()
        assert status == 1, f"a driver that was taken over from ended with {status}: {words}"
        assert newest_commit_of(job.table, zombie.run_id) == committed, "a driver that was taken over from has written"
    finally:
        zombie.kill()
    return f"stopped for {seconds:.1f} s with {state}; it ended with {words}"


def broker_stays_down(scene: Scene) -> str:
    """One of the brokers is down when the driver starts, when it is killed in a round, and when it starts again, for a
    minute as a rule; the other broker's partitions go on all the while, and its own when it is back.
    """
    job, broker_id = scene.job, scene.rng.choice(sorted(scene.tube.brokers))

    def go_on(there: bool) -> None:
        before = _of_broker(end_of_sink(job.table), broker_id, there)
        job.wait_for(
            lambda: all(end_of_sink(job.table).get(key, -1) > at for key, at in before.items()),
            f"rows of {', '.join(before)}, with broker {broker_id} {'back' if there else 'down'}",
            GOES_ON_SECONDS,
            poll_seconds=0.1,
        )

    in_mid_round(scene)
    scene.kill()
    with scene.tube.without_broker(broker_id):
        since = time.monotonic()
        job.start()
        go_on(False)
        state = in_mid_round(scene)
        scene.kill()
        job.start()
        go_on(False)
        until(since + scene.down_seconds)
        job.check()
        seconds = time.monotonic() - since
    go_on(True)
    return f"broker {broker_id}, down for {seconds:.1f} s, the driver killed with {state}"


def hold_up_server(scene: Scene) -> str:
    """A broker or the master stands still for longer than all leases; then it goes on, and knows that it has lost
    everybody. The embedded ones are one process, so all of them do."""
    server = scene.rng.choice((0, *sorted(scene.tube.brokers)))
    seconds = scene.rng.uniform(LEASE_SECONDS + 3, LEASE_SECONDS + 10)
    state = state_of(scene.job)
    with scene.tube.standing_still(server):
        time.sleep(seconds)
    which = f"broker {server}" if server else "the master"
    return f"{which if scene.tube.name == 'apache' else 'all servers'}, for {seconds:.1f} s, {state}"


def _stop_in_round(
    scene: Scene, find: Callable[[], list[Found]], what: str, least: float, most: float, then: signal.Signals
) -> str:
    """SIGSTOP for one of the processes of a kind, so that the running or the next round gets stuck with it; and another
    signal some seconds later."""
    process = one_of(scene, find, what)
    send_signal(process, signal.SIGSTOP)
    seconds = scene.rng.uniform(least, most)
    time.sleep(seconds)
    state = state_of(scene.job)
    send_signal(process, then)
    return f"process {process.pid}, held up for {seconds:.1f} s, {state}"


def _of_broker(ends: Positions, broker_id: int, wanted: bool) -> Positions:
    """The partitions of a broker, or those of all others."""
    return {key: at for key, at in ends.items() if key.startswith(f"{broker_id}:") == wanted}


DRIVER_FAULTS: Final = (
    stop_driver,
    kill_driver,
    kill_driver_between_commits,
    zombie_driver,
    broker_stays_down,
)
"""After these the job starts again, which is most of the time that they take."""

OTHER_FAULTS: Final = (kill_executor, kill_python_worker, hold_up_python_worker, restart_master, restart_broker)

LONG_FAULTS: Final[tuple[Fault, ...]] = (zombie_driver, broker_stays_down, hold_up_server)
"""Each of them takes minutes where a driver starts slowly, so that a run might end before the seed draws them."""

FAULTS: Final[tuple[Fault, ...]] = (*DRIVER_FAULTS, *OTHER_FAULTS, hold_up_server)
