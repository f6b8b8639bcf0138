"""The way from Spark's processes to TubeMQ: a door before each server, where what passes is held back, slow or refused.

A door needs no rights that a build server may lack, as a network namespace does. Producers and the judge go past the
doors. Whoever asks a master for the brokers through a door is told the doors of the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Self

from tests.apache.jvm import free_ports
from tests.conformance.cluster import Cluster
from tests.front_door import FrontDoor, Manner

__all__ = ["Network"]

_FIRST_HOST: Final = 11
"""The masters' doors are at 127.0.0.11 and so on: all masters of a cluster have the same web port."""


class Network:
    """The doors of a running cluster, all good at first; a context manager. One master has two doors, so that there is
    another address to go on with.
    """

    def __init__(self, cluster: Cluster) -> None:
        masters = cluster.masters if len(cluster.masters) > 1 else 2 * cluster.masters
        port, self.master_web_port, *ports = free_ports(2 + 2 * len(cluster.brokers))
        addresses: dict[str, str] = {}
        numbers: dict[str, str] = {}
        self._brokers: dict[str, list[FrontDoor]] = {}
        for broker_id, broker in cluster.brokers.items():
            here, web_here, web = ports.pop(), ports.pop(), cluster.broker_webs[broker_id]
            addresses[broker.address] = f"{broker.host}:{here}"
            numbers |= {str(broker.port): str(here), web.rpartition(":")[2]: str(web_here)}
            self._brokers[f"broker {broker_id}"] = [
                FrontDoor(broker.address, host=broker.host, port=here),
                FrontDoor(web, host=broker.host, port=web_here, web=True),
            ]
        self._masters: dict[str, list[FrontDoor]] = {}
        for number, (address, web) in enumerate(masters):
            host = f"127.0.0.{_FIRST_HOST + number}"
            self._masters[f"master {number + 1}"] = [
                FrontDoor(address, host=host, port=port, renamed=addresses),
                FrontDoor(web, host=host, port=self.master_web_port, renamed=numbers, web=True),
            ]
        self.master_servers = ",".join(f"{doors[0].address}" for doors in self._masters.values())
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for doors in self._all.values():
                for door in doors:
                    stack.enter_context(door)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def masters(self) -> list[str]:
        """The names of the masters' addresses."""
        return list(self._masters)

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers."""
        return list(self._brokers)

    @property
    def master_in_use(self) -> str:
        """The master's address that was asked last."""
        return max(self._masters, key=lambda name: self._masters[name][0].last_asked)

    def asked(self, name: str) -> int:
        """How many requests have come to a server, other than those for its web port."""
        return self._all[name][0].asked

    @contextmanager
    def behaving(self, manner: Manner, *names: str, late_seconds: float = 0.0) -> Iterator[None]:
        """For the length of the block these servers behave like this."""
        doors = [door for name in names for door in self._all[name]]
        try:
            for door in doors:
                door.late_seconds = late_seconds
                door.become(manner)
            yield
        finally:
            for door in doors:
                door.become(Manner.GOOD)

    @property
    def _all(self) -> dict[str, list[FrontDoor]]:
        return self._masters | self._brokers
