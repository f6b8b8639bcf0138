"""Adds to the planner's process what Spark does not: a clean end, a log, and fewer garbage collections.

Spark ends that process with SIGTERM, without any call before. By default Python dies at once; the group's nodes then
stay held until the master's lease ends, and the next start must wait. A driver that is killed sends no signal at all.
Spark's runner notices the end of its input, but only after its present call, and never if the driver was killed while
it started another process: Java's half-started one (jspawnhelper) lives on and keeps the input open. Also, no user code
runs in it that could set up logging, so Python would show only warnings.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from spark_source.boundary import main_module, show_log

__all__ = ["LOG_LEVEL_VARIABLE", "collect_seldom", "ignore_termination", "java_parent", "set_up_planner_process"]

PLANNER_MODULE: Final = "pyspark.sql.streaming.python_streaming_source_runner"

LOG_LEVEL_VARIABLE: Final = "TUBECLIENT_LOG_LEVEL"
"""Environment variable of the driver: the planner's log level on standard error, a name of Python's logging."""

_POLL_SECONDS = 1.0
"""Between two looks whether the driver is still there."""

_END_SECONDS = 15.0
"""How long the planner may take to release its group after its driver has died."""


def set_up_planner_process() -> bool:
    """In Spark's planner process: let SIGTERM raise SystemExit, so that the runner calls the reader's stop(); do the
    same when the driver has died; show this project's logs; collect garbage rarely. False in other processes."""
    if main_module() != PLANNER_MODULE or threading.current_thread() is not threading.main_thread():
        return False
    signal.signal(signal.SIGTERM, _leave)
    driver_runs = java_parent()
    if driver_runs is not None:
        threading.Thread(target=_follow, args=(driver_runs,), name="tubeclient-driver-watch", daemon=True).start()
    collect_seldom()
    text = os.environ.get(LOG_LEVEL_VARIABLE, "INFO")
    level = logging.getLevelNamesMapping().get(text.strip().upper())
    show_log(logging.INFO if level is None else level)
    if level is None:
        logging.getLogger(__name__).warning("%s is %r, which is not a log level", LOG_LEVEL_VARIABLE, text)
    return True


def ignore_termination() -> None:
    """Let no signal interrupt the planner while it releases its group. Does nothing in other processes."""
    if signal.getsignal(signal.SIGTERM) is _leave:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def collect_seldom() -> None:
    """Make Python look for reference cycles after 100 000 new objects instead of 700: a batch of 10 000 partitions
    creates as many that live until the next one, and scanning all of them often takes longer than the planning."""
    gc.set_threshold(100_000, 50, 100)


def java_parent() -> Callable[[], bool] | None:
    """Returns a function that says whether this process still has the parent that it has now; None if that is no JVM,
    as a launcher that may end early, and where there is no /proc, which is on Linux alone."""
    parent = os.getppid()
    try:
        name = Path(f"/proc/{parent}/comm").read_text().strip()
    except OSError:
        return None
    return (lambda: os.getppid() == parent) if name == "java" else None


def _leave(_signal: int, _frame: FrameType | None) -> None:
    ignore_termination()  # a second signal must not interrupt the first one's cleanup
    raise SystemExit(0)


def _follow(driver_runs: Callable[[], bool]) -> None:
    """End this process after its driver, whatever it is waiting for."""
    while driver_runs():
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)  # its heartbeats would hold the group forever
