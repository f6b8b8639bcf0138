"""Calls of users' callbacks by the client's own threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["call_back"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


def call_back(callback: Callable[[T], object], argument: T) -> None:
    """Call `callback`, and log what it raises. Others wait for what this thread does next.

    SystemExit and the like as well: they would end this thread and not the program. On the main thread they may come
    from a signal, and are raised.
    """
    try:
        callback(argument)
    except BaseException as error:
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise
        _log.exception("a callback for %r failed", argument)
