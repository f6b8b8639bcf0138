"""What the planner's process lacks as Spark starts it: a clean end, a log, and a patient garbage collector.

Spark ends that process with SIGTERM and calls nothing before. Python's answer to SIGTERM is to die at once; the group's
nodes then stay held until the master's lease ends, and the next start waits for that. And no code of the user's runs in
it that could set up logging, so that Python would show warnings only.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import Final

__all__ = ["LOG_LEVEL_VARIABLE", "collect_seldom", "set_up_planner_process"]

PLANNER_MODULE: Final = "pyspark.sql.streaming.python_streaming_source_runner"

LOG_LEVEL_VARIABLE: Final = "TUBECLIENT_LOG_LEVEL"
"""Environment variable of the driver: how much the planner tells on its standard error, a name of Python's logging."""

_PACKAGES: Final = ("spark_source", "tubeclient", "offsets_store")


def set_up_planner_process() -> bool:
    """In Spark's planner process let SIGTERM raise SystemExit, so that the runner calls the reader's stop(), show what
    this project's packages log, and collect garbage seldom.

    Does nothing, and returns False, in every other process: their signals and logs are not ours.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if getattr(spec, "name", None) != PLANNER_MODULE or threading.current_thread() is not threading.main_thread():
        return False
    signal.signal(signal.SIGTERM, _leave)
    collect_seldom()
    if not logging.getLogger().handlers:
        _show_log(os.environ.get(LOG_LEVEL_VARIABLE, "INFO"))
    return True


def collect_seldom() -> None:
    """Let Python look for cycles after 100 000 new objects and not after 700.

    A batch of 10 000 partitions makes some 100 000 that live until the next one. At 700 all there is, pyspark included,
    would be searched several times a batch, which takes longer than the planning (`python -m bench.microbatch`).
    """
    gc.set_threshold(100_000, 50, 100)


def _show_log(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    known = logging.getLevelNamesMapping().get(level.strip().upper())
    for name in _PACKAGES:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if known is None else known)
    if known is None:
        logging.getLogger(__name__).warning("%s is %r, which is no level of a log", LOG_LEVEL_VARIABLE, level)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the first one's end short
    raise SystemExit(0)
