"""The masters of a cluster of Apache's: one, or several of which one is active.

Several keep their books together (Berkeley DB's replication) and elect the active one, which takes a majority: so there
are three or none. All this was seen on 2.4.0: the first founds the group, the others join it within some 8 s; when the
active one is killed, another is active some seconds later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.apache.admin import AdminError, MasterAdmin
from tests.apache.jvm import POLL_S, JvmProcess, ServerError

__all__ = ["MasterGroup"]

_START_TIMEOUT: Final = 60.0
# A master that stands still is missed by the others after 30 s.
_ELECTION_TIMEOUT: Final = 90.0


class MasterGroup:
    """The processes, the first of which founds the group, and the web port of each."""

    def __init__(self, processes: Sequence[JvmProcess], admins: Sequence[MasterAdmin]) -> None:
        self.processes = processes
        self._admins = admins
        self._active = 0
        self._founded = False

    @property
    def active(self) -> int:
        """The number of the active one, or of the last that was."""
        if len(self.processes) > 1:
            self._find(range(len(self.processes)))
        return self._active

    @property
    def admin(self) -> MasterAdmin:
        """The web port of the active one."""
        return self._admins[self.active]

    def start(self) -> None:
        """Returns when one is active; the others may need some more seconds."""
        for process in self.processes:
            process.start()
            if not self._founded:
                process.wait_for("answers HTTP as the active master", lambda: self._find([0]), _START_TIMEOUT)
                self._founded = True
        self._await_active(range(len(self.processes)), _START_TIMEOUT)

    @contextmanager
    def without_active(self, *, silent: bool) -> Iterator[None]:
        """Another one is active when the block begins. The one before is killed and started after the block, or stands
        still until then.
        """
        self._await_majority()
        lost = self.active
        process = self.processes[lost]
        others = [number for number in range(len(self.processes)) if number != lost]
        if silent:
            with process.standing_still():
                self._await_active(others, _ELECTION_TIMEOUT)
                yield
            return
        process.kill()
        try:
            self._await_active(others, _ELECTION_TIMEOUT)
            yield
        finally:
            process.start()

    def _await_active(self, numbers: Sequence[int], timeout: float) -> None:
        self.processes[numbers[0]].wait_for("one master is active", lambda: self._find(numbers), timeout)

    def _find(self, numbers: Sequence[int]) -> bool:
        """Whether one of these is active; the one that was is asked first."""
        for number in sorted(numbers, key=lambda one: one != self._active):
            try:
                self._admins[number].broker_states()
            except AdminError:
                continue
            self._active = number
            return True
        return False

    def _await_majority(self) -> None:
        """Until all masters have joined, so that the others are a majority."""
        deadline = time.monotonic() + _START_TIMEOUT
        while self._joined() < len(self.processes):
            if time.monotonic() >= deadline:
                raise ServerError(f"only {self._joined()} masters have joined the group")
            time.sleep(POLL_S)

    def _joined(self) -> int:
        try:
            members = self.admin.query("admin_query_master_group_info")
        except AdminError:  # while one of them is starting
            return 0
        return sum(member["statusInfo"]["nodeStatus"] in ("MASTER", "REPLICA") for member in members)
