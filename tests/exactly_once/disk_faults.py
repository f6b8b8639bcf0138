"""Faults in which a disk is full for a while."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.exactly_once.full_disk import NO_SPACE, Disk
from tests.exactly_once.processes import Found
from tests.exactly_once.scene import ENDED_SECONDS, Scene, one_of, state_of
from tests.exactly_once.zombie import last_words
from tubeclient_cli.common.terminal import ExitCode

__all__ = ["full_offsets_table", "full_target"]


def full_target(scene: Scene) -> str:
    """No more rows can be written: the job ends and says why, and goes on after a new start with space."""
    return _full(scene, scene.target_disk, scene.spark.executors, ExitCode.FAILED)


def full_offsets_table(scene: Scene) -> str:
    """The same for the offsets table."""
    return _full(scene, scene.offsets_disk, scene.job.pythons, ExitCode.UNREACHABLE)


def _full(scene: Scene, disk: Disk, writers: Callable[[], list[Found]], code: ExitCode) -> str:
    job = scene.job
    one_of(scene, writers, "a process that writes")
    with disk.full(writers()):
        state = state_of(job)
        status = job.run.wait(ENDED_SECONDS)
        words = last_words(job.run)
        assert status == code, f"a job whose disk was full ended with {status}: {words}"
        assert re.search(NO_SPACE, words), f"a job whose disk was full said: {words}"
        scene.order.after_kill()
    job.start()
    return f"{'mounted' if disk.mounted else 'files limited'}, {state}; it ended with {words[:200]}"
