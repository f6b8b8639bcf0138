"""Ends a command whose Spark has died.

Python's calls into a JVM that was killed fail at once, as a rule. They wait for ever if it was killed while it started
another process: Java's half-started one (jspawnhelper) lives on and keeps their sockets open.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from spark_source.java_parent import java_parent
from spark_source.session import is_submitted

__all__ = ["end_after_jvm"]

_NAME: Final = "spark-jvm-watch"
_LOOK_SECONDS = 1.0
_END_SECONDS = 20.0
"""How long the command may take to say by itself what failed, and to end."""
_TELL_SECONDS = 1.0
_FAILED: Final = 1


def end_after_jvm() -> None:
    """From now on, end this process some seconds after Spark's JVM, if it does not end by itself.

    Call it while Spark runs, as often as you like: a process has one JVM. Does nothing where that is neither this
    process's child nor, under spark-submit, its parent.
    """
    is_there = _jvm()
    if is_there is not None and not any(thread.name == _NAME for thread in threading.enumerate()):
        threading.Thread(target=_follow, args=(is_there,), name=_NAME, daemon=True).start()


def _jvm() -> Callable[[], bool] | None:
    """Says whether the JVM runs; None if its process is unknown."""
    from pyspark import SparkContext

    if is_submitted():
        return java_parent()
    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else lambda: process.poll() is None


def _follow(is_there: Callable[[], bool]) -> None:
    while is_there():
        time.sleep(_LOOK_SECONDS)
    time.sleep(_END_SECONDS)
    # Nobody may read standard error, and it may be full.
    telling = threading.Thread(target=_tell, daemon=True)
    telling.start()
    telling.join(_TELL_SECONDS)
    os._exit(_FAILED)  # the main thread cannot be interrupted in that call


def _tell() -> None:
    with contextlib.suppress(OSError, ValueError):
        print(
            "Spark's JVM has died, and a call into it never ended. Start the command again.",
            file=sys.stderr,
            flush=True,
        )
