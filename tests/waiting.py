"""Waits for a condition, with a time limit; and what some tests wait for."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import IO

from tubeclient import Admin, ClientSettings

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


def group_page(master_web_port: int, group: str) -> dict[int, list[str]]:
    """A group on the master's HTTP page: its nodes, and the partition keys that each reported; {} without members."""
    admin = Admin(ClientSettings(("127.0.0.1:8715",), master_web_port=master_web_port))
    return {
        member.node_id: [str(key) for key in member.partitions]
        for member in admin.group(group).members
        if member.node_id is not None
    }
