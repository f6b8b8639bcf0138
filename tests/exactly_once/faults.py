"""The faults, one function each. Each returns a description of the fault once it has happened; the script checks that
batches continue afterwards."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from tests.exactly_once.disk_faults import full_offsets_table, full_target
from tests.exactly_once.looking import end_of_sink, newest_commit_of
from tests.exactly_once.network_faults import cut_off, cut_off_for_long, fail_over, slow_network
from tests.exactly_once.order import Positions
from tests.exactly_once.pauses import hold_up_driver, hold_up_server, hold_up_server_for_long
from tests.exactly_once.processes import Found, send_signal
from tests.exactly_once.scene import (
    BATCH_SECONDS,
    ENDED_SECONDS,
    GOES_ON_SECONDS,
    LEASE_SECONDS,
    Fault,
    Scene,
    any_moment,
    in_mid_batch,
    in_table,
    known,
    one_of,
    state_of,
    until,
)

__all__ = [
    "DRIVER_FAULTS",
    "FAULTS",
    "LONG_FAULTS",
    "OTHER_FAULTS",
    "RARE_FAULTS",
    "broker_stays_down",
    "kill_in_batch_0",
    "lose_checkpoint",
    "zombie_driver",
]


def kill_in_batch_0(scene: Scene) -> str:
    """SIGKILL for the driver when the very first batch is planned and not complete, and a new start."""
    job = scene.job
    job.wait_for(lambda: job.planned == 0, "batch 0 to be planned")
    scene.kill()
    assert job.committed == -1, "batch 0 was complete before the driver could be killed"
    job.start()
    return "in batch 0"


def kill_executor(scene: Scene) -> str:
    """SIGKILL in the middle of a batch; Spark starts another one."""
    return _stop_in_batch(scene, scene.spark.executors, "an executor", 0.5, 2, signal.SIGKILL)


def kill_python_worker(scene: Scene) -> str:
    """SIGKILL in the middle of a batch; Spark runs its task again."""
    return _stop_in_batch(scene, scene.spark.python_workers, "a Python worker", 0.5, 2, signal.SIGKILL)


def hold_up_python_worker(scene: Scene) -> str:
    """Its task becomes the slow one that speculation is for, and goes on when another attempt was first."""
    return _stop_in_batch(scene, scene.spark.python_workers, "a Python worker", 4, 7, signal.SIGCONT)


def restart_master(scene: Scene) -> str:
    """TubeMQ's, which forgets the group's nodes and the producers."""
    scene.restart_master()
    return state_of(scene.job)


def restart_broker(scene: Scene) -> str:
    """A clean stop of one of the brokers, and a start some seconds later."""
    broker_id = scene.rng.choice(sorted(scene.tube.brokers))
    seconds = scene.rng.uniform(0, 4)
    with scene.without_broker(broker_id):
        time.sleep(seconds)
    return f"broker {broker_id}, away for {seconds:.1f} s more than it takes, {state_of(scene.job)}"


def stop_driver(scene: Scene) -> str:
    """SIGTERM in the middle of a batch, the job's own end, and a new start."""
    state = in_mid_batch(scene)
    scene.job.stop()
    scene.order.after_stop()
    scene.job.start()
    return state


def kill_driver(scene: Scene) -> str:
    """SIGKILL in the middle of a batch, and a new start."""
    state = in_mid_batch(scene)
    scene.kill()
    scene.job.start()
    return state


def kill_driver_between_commits(scene: Scene) -> str:
    """SIGKILL as soon as a batch is in the table, which is before Spark notes that it is complete; and a new start."""
    in_table(scene)
    scene.kill()
    state = known(scene.job)
    scene.job.start()
    return state


def lose_checkpoint(scene: Scene) -> str:
    """SIGKILL at any moment, in a batch, or when a batch is in the table and Spark has not noted it; the checkpoint is
    deleted, and the job starts with a new one.
    """
    scene.rng.choice((any_moment, in_mid_batch, in_table))(scene)
    scene.kill()
    state = known(scene.job)
    scene.job.lose_checkpoint()
    scene.job.start()
    return state


def kill_planner(scene: Scene) -> str:
    """SIGKILL for the source's process beside the driver: the query fails, the job ends, and is started again."""
    job = scene.job
    planner = one_of(scene, job.planners, "the planner")
    send_signal(planner, signal.SIGKILL)
    status = job.run.wait(ENDED_SECONDS)
    assert status == 1, f"a job whose planner was killed ended with {status}\n{job.run.tail()}"
    scene.order.after_kill()
    job.start()
    return f"process {planner.pid}"


def zombie_driver(scene: Scene) -> str:
    """SIGSTOP for the driver and its planner in the middle of a batch, for longer than the group's lease. A second one
    takes over, with a new checkpoint and the same table. Then the first goes on: it must end, and without a commit.
    """
    job = scene.job
    before = job.planned
    job.wait_for(lambda: job.planned > max(before, job.committed), "a batch to begin")
    time.sleep(scene.rng.uniform(0, BATCH_SECONDS / 2))
    state = known(job)
    zombie, stopped = job.set_aside(), time.monotonic()
    try:
        job.start()
        job.wait_for(lambda: job.committed >= 0, "a batch of the second driver", GOES_ON_SECONDS)
        until(stopped + LEASE_SECONDS)
        seconds, committed = time.monotonic() - stopped, newest_commit_of(job.table, zombie.query_id)
        zombie.go_on()
        status = zombie.wait(ENDED_SECONDS)
        words = zombie.last_words()
        assert status == 1, f"a driver that was taken over from ended with {status}: {words}"
        assert newest_commit_of(job.table, zombie.query_id) == committed, (
            "a driver that was taken over from has written"
        )
    finally:
        zombie.kill()
    return f"stopped for {seconds:.1f} s with {state}; it ended with {words}"


def broker_stays_down(scene: Scene) -> str:
    """One of the brokers is down when the driver starts, when it is killed in a batch, and when it starts again, for a
    minute as a rule; the other broker's partitions go on all the while, and its own when it is back.

    The driver is killed between two batches before: one that is planned already is read as it is, so it would wait for
    its brokers.
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

    job.wait_for(job.caught_between_batches, "a moment between two batches", poll_seconds=0.002)
    scene.kill()
    with scene.without_broker(broker_id):
        since = time.monotonic()
        job.start()
        go_on(False)
        state = in_mid_batch(scene)
        scene.kill()
        job.start()
        go_on(False)
        until(since + scene.down_seconds)
        job.check()
        seconds = time.monotonic() - since
    go_on(True)
    return f"broker {broker_id}, down for {seconds:.1f} s, the driver killed with {state}"


def _stop_in_batch(
    scene: Scene, find: Callable[[], list[Found]], what: str, least: float, most: float, then: signal.Signals
) -> str:
    """SIGSTOP for one of the processes of a kind, so that the running or the next batch gets stuck with it; and another
    signal some seconds into that batch."""
    job = scene.job
    process = one_of(scene, find, what)
    send_signal(process, signal.SIGSTOP)
    job.wait_for(lambda: job.planned > job.committed, "a batch to run")
    seconds = scene.rng.uniform(least, most)
    time.sleep(seconds)
    state = state_of(job)
    send_signal(process, then)
    return f"process {process.pid}, held up for {seconds:.1f} s, {state}"


def _of_broker(ends: Positions, broker_id: int, wanted: bool) -> Positions:
    """The partitions of a broker, or those of all others."""
    return {key: at for key, at in ends.items() if key.startswith(f"{broker_id}:") == wanted}


DRIVER_FAULTS: Final = (
    stop_driver,
    kill_driver,
    kill_driver_between_commits,
    lose_checkpoint,
    kill_planner,
    zombie_driver,
    broker_stays_down,
)
"""After these the job starts again, which is most of the time that they take."""

OTHER_FAULTS: Final = (kill_executor, kill_python_worker, hold_up_python_worker, restart_master, restart_broker)

LONG_FAULTS: Final[tuple[Fault, ...]] = (zombie_driver, broker_stays_down)
"""Each of them takes minutes where a driver starts slowly, so that a run might end before the seed draws them."""

RARE_FAULTS: Final[tuple[Fault, ...]] = (
    hold_up_driver,
    hold_up_server,
    hold_up_server_for_long,
    cut_off,
    cut_off_for_long,
    slow_network,
    fail_over,
    full_target,
    full_offsets_table,
)
"""Of these a short run has one or two."""

FAULTS: Final[tuple[Fault, ...]] = (*DRIVER_FAULTS, *OTHER_FAULTS, *RARE_FAULTS)
