"""A clean end for the planner's process.

Spark ends that process with SIGTERM and calls nothing before. Python's answer to SIGTERM is to die at once; the group's
nodes then stay held until the master's lease ends, and the next start waits for that.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Final

__all__ = ["end_cleanly_on_sigterm"]

PLANNER_MODULE: Final = "pyspark.sql.streaming.python_streaming_source_runner"


def end_cleanly_on_sigterm() -> bool:
    """In Spark's planner process let SIGTERM raise SystemExit, so that the runner calls the reader's stop().

    Does nothing, and returns False, in every other process: their signals are not ours.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if getattr(spec, "name", None) != PLANNER_MODULE or threading.current_thread() is not threading.main_thread():
        return False
    signal.signal(signal.SIGTERM, _leave)
    return True


def _leave(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the first one's end short
    raise SystemExit(0)
