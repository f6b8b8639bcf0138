"""What the processes of a run use: memory, descriptors and threads, summed over each role."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.exactly_once.processes import Found

__all__ = ["ROLES", "Use", "role_of", "use_by_role"]

ROLES: Final[Mapping[str, str]] = {
    "planner": "python_streaming_source_runner",
    "Python workers": "pyspark.daemon",
    "driver JVM": "org.apache.spark.deploy.SparkSubmit",
    "driver Python": "tubeclient_cli.app ingest",
    "executor JVMs": "CoarseGrainedExecutorBackend",
    "embedded server": "tubeclient_cli.app server",
}
"""By role, a part of its command line. The first that fits counts."""

_PROC: Final = Path("/proc")


class Use(NamedTuple):
    """Of one process, or of all of one role."""

    memory_mb: float
    """Proportional set size: pages that several processes share count once, in parts."""
    descriptors: int
    threads: int
    processes: int = 1

    def plus(self, other: Use) -> Use:
        """Both together."""
        return Use(
            self.memory_mb + other.memory_mb,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
            self.processes + other.processes,
        )


def role_of(command: str) -> str | None:
    """The role of a process, by its command line; None for others."""
    return next((role for role, part in ROLES.items() if part in command), None)


def use_by_role(processes: Iterable[Found]) -> dict[str, Use]:
    """What they use at this moment. Processes that end meanwhile are left out."""
    found: dict[str, Use] = defaultdict(lambda: Use(0.0, 0, 0, 0))
    for process in processes:
        role = role_of(process.command)
        if role is not None:
            with contextlib.suppress(OSError):
                found[role] = found[role].plus(_use_of(_PROC / str(process.pid)))
    return dict(found)


def _use_of(folder: Path) -> Use:
    fields = _fields((folder / "smaps_rollup").read_text())
    status = _fields((folder / "status").read_text())
    descriptors = sum(1 for _ in (folder / "fd").iterdir())
    return Use(int(fields["Pss"]) / 1024, descriptors, int(status["Threads"]))


def _fields(text: str) -> dict[str, str]:
    lines = (line.split() for line in text.splitlines())
    return {words[0].removesuffix(":"): words[1] for words in lines if len(words) > 1}
