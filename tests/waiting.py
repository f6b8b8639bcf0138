"""Waits for a condition, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_SECONDS = 0.02


def wait_for(condition: Callable[[], object], what: str, *, seconds: float = 30.0) -> None:
    """Return as soon as `condition` holds; fail with what was waited for after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(POLL_SECONDS)
