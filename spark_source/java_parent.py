"""Whether Spark's JVM started this process, and still runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["java_parent"]


def java_parent() -> Callable[[], bool] | None:
    """Returns a function that says whether this process still has the parent that it has now: a process that dies
    leaves its children to another one.

    None if the parent is no JVM: a launcher may end early. None too where there is no /proc, which is on Linux alone.
    """
    parent = os.getppid()
    try:
        name = Path(f"/proc/{parent}/comm").read_text().strip()
    except OSError:
        return None
    return (lambda: os.getppid() == parent) if name == "java" else None
