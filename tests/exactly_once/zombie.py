"""A driver that is paused and continues after another has taken over: its processes, and their end."""

from __future__ import annotations

import signal
from typing import Final

from tests.exactly_once.processes import Child, Found, send_signal

__all__ = ["Zombie", "last_words"]

_COMMAND: Final = "tubeclient ingest: "


class Zombie:
    """The processes of one run of the job, which are stopped here (SIGSTOP), and its id in the table's commits."""

    def __init__(self, run: Child, processes: list[Found], run_id: str | None) -> None:
        self._run = run
        self.processes = processes
        assert run_id is not None, "it has not written to the table"
        self.run_id = run_id
        for process in processes:
            send_signal(process, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT: all of them go on in the middle of what they were doing."""
        for process in self.processes:
            send_signal(process, signal.SIGCONT)

    def wait(self, seconds: float) -> int:
        """Return the run's exit status; AssertionError after `seconds`."""
        return self._run.wait(seconds)

    def last_words(self) -> str:
        """What the command said last for its user, cut short."""
        return last_words(self._run)[:200]

    def kill(self) -> None:
        """SIGKILL for what is left of them."""
        for process in self.processes:
            send_signal(process, signal.SIGKILL)
        self._run.kill()


def last_words(run: Child) -> str:
    """What the command said last for its user; "" if it said nothing."""
    said = [line for line in run.log.read_text(errors="replace").splitlines() if line.startswith(_COMMAND)]
    return said[-1].removeprefix(_COMMAND) if said else ""
