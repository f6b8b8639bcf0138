"""Processes of the tests: starts and ends them, and finds their descendants.

Each started process carries a mark in its environment, and so do all its descendants, including orphans. Processes
without the mark are never touched, and each process is ended by its own id.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.apache.jvm import tail
from tests.spark_home import SPARK_HOME
from tests.waiting import wait_for

__all__ = ["MARK", "Child", "Found", "marked", "none_left", "send_signal"]

ROOT = Path(__file__).resolve().parents[2]
MARK = "TUBECLIENT_TEST_MARK"
"""The environment variable that has a process's mark."""


class Child:
    """A process with a session of its own, in `folder` or beside its log; what it prints is appended to `log`. `more`
    is added to its environment, and what is None there is taken out.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        mark: str,
        more: Mapping[str, str | None] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.mark = mark
        environment = {
            **os.environ,
            # Spark's workers take "python3" from PATH unless they are told, and have to find this very package.
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **(more or {}),
            MARK: mark,
        }
        given = {name: value for name, value in environment.items() if value is not None}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                list(command),
                cwd=folder or log.parent,
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting."""
        if self.running:
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL."""
        if self.running:
            self._process.kill()
        self._process.wait(10)

    def wait(self, seconds: float) -> int:
        """Return its exit status; AssertionError with the end of its log after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds:g} s\n{self.tail()}") from None

    def tail(self, lines: int = 40) -> str:
        """The last lines that it printed, for a failure's message."""
        state = "running" if self.running else f"ended with {self._process.returncode}"
        return f"--- {self.name} ({state}), {self.log}:\n{tail(self.log, lines)}"


@dataclass(frozen=True)
class Found:
    """A running process, of which nothing is known to have changed since `begun` (clock ticks since boot)."""

    pid: int
    parent: int
    begun: int
    command: str


def marked(mark: str) -> list[Found]:
    """All running processes that carry the mark, in the order of their ids; those that have ended are left out."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in sorted(Path("/proc").iterdir(), key=lambda path: path.name.rjust(12)):
        if not folder.name.isdigit():
            continue
        # A process may end at any moment; what is left of it then cannot be read.
        with contextlib.suppress(OSError):
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            state, parent, begun = _status(folder)
            if state != "Z":
                found.append(Found(int(folder.name), parent, begun, command))
    return found


def send_signal(process: Found, number: signal.Signals) -> bool:
    """Send a signal to this very process; False if it has ended."""
    with contextlib.suppress(OSError):
        if _status(Path(f"/proc/{process.pid}"))[2] == process.begun:
            os.kill(process.pid, number)
            return True
    return False


@contextlib.contextmanager
def none_left(*marks: str, seconds: float = 30.0) -> Iterator[None]:
    """After the block no process with one of the marks may live on; those that do are killed, and named.

    A Java process that was killed while it started another one leaves a half-started one, which never ends by itself
    and keeps its files open; Spark's Python daemons live on with it. Those are not what the tests are about.
    """

    def left() -> list[Found]:
        return [process for mark in marks for process in marked(mark)]

    try:
        yield
        for process in left():
            if "jspawnhelper" in process.command:
                send_signal(process, signal.SIGKILL)
        wait_for(lambda: not left(), "the processes that were started to end", seconds=seconds)
    except BaseException as error:
        named = left()
        for process in named:
            send_signal(process, signal.SIGKILL)
        if named:
            error.add_note("still running: " + "; ".join(f"{one.pid} {one.command[:200]}" for one in named))
        raise


def _status(folder: Path) -> tuple[str, int, int]:
    """State, parent and start of a process. The name, which may hold anything, stands in brackets before them."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])
