"""The masters of a cluster of Apache's: one, or several of which one is active.

Several keep their books together (Berkeley DB's replication) and elect the active one, which takes a majority: so there
are three or none. All this was seen on 2.4.0: the first founds the group, the others join it within some 8 s; when the
active one is killed, another is active some seconds later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.apache.jvm import POLL_S, JvmProcess, ServerError
from tests.apache.settings import MODIFY_TOKEN
from tubeclient.errors import TubeError
from tubeclient.net.http import query_master

__all__ = ["AdminError", "MasterAdmin", "MasterGroup"]

_START_TIMEOUT: Final = 60.0
# A master that stands still is missed by the others after 30 s.
_ELECTION_TIMEOUT: Final = 90.0


_HTTP_TIMEOUT_MS: Final = 10_000
# Who did it. A name of one letter is refused by the master.
_USER: Final = "tests"


class AdminError(RuntimeError):
    """A server answered that it did not do it, or did not answer."""


class MasterAdmin:
    """A master's web port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, method: str, **parameters: object) -> list[dict[str, Any]]:
        """The `data` of an answer."""
        texts = {name: _text(value) for name, value in parameters.items()}
        try:
            data = query_master(self.address, method, _HTTP_TIMEOUT_MS, **texts).get("data", [])
        except TubeError as error:
            raise AdminError(f"{method} at {self.address}: {error}") from error
        return data if isinstance(data, list) else [data]

    def modify(self, method: str, **parameters: object) -> list[dict[str, Any]]:
        """A change, which needs the token; AdminError too where one of the changed items was refused."""
        who = {"createUser": _USER, "modifyUser": _USER, "confModAuthToken": MODIFY_TOKEN}
        items = self.query(method, **parameters, **who)
        refused = [item for item in items if item.get("success", True) is not True]
        if refused:
            raise AdminError(f"{method}: {refused}")
        return items

    def broker_states(self) -> dict[int, dict[str, Any]]:
        """admin_query_broker_run_status by broker id."""
        return {int(item["brokerId"]): item for item in self.query("admin_query_broker_run_status")}

    def topic_states(self, topics: Sequence[str]) -> dict[tuple[str, int], dict[str, Any]]:
        """`runInfo` of admin_query_topic_info by (topic, broker id): what the master tells clients."""
        return {
            (item["topicName"], int(deployed["brokerId"])): deployed.get("runInfo", {})
            for item in self.query("admin_query_topic_info", topicName=list(topics))
            for deployed in item.get("topicInfo", ())
        }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


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
