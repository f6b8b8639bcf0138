"""Waits for a condition, with a time limit."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import IO

POLL_SECONDS = 0.02


def has_output(stream: IO[str]) -> bool:
    """Whether something can be read from a pipe."""
    looking = select.poll()  # select() takes no descriptor from 1024 on, and a test run has many files open
    looking.register(stream, select.POLLIN)
    return bool(looking.poll(0))


def wait_for(condition: Callable[[], object], what: str, *, seconds: float = 30.0) -> None:
    """Return as soon as `condition` holds; fail with what was waited for after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(POLL_SECONDS)
