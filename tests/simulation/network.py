"""Connections without sockets: bytes take a while, get lost, come late; hosts cannot reach each other for a while.

`Connection` stands in for the client's, and `fetch` for its HTTP calls. The bytes are those of the wire.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.hub import Hub, Process
from tests.simulation.stand_ins import current
from tubeclient.errors import ConnectError, ConnectionLost, TubeError
from tubeclient.net.connection import _Awaited
from tubeclient.wire.framing import Frame

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Connection", "Network", "Server", "Weather", "fetch", "network_of", "set_network"]

LATEST_SECONDS = 12.0
"""How long after its break a connection's last bytes may still reach the server: mostly much sooner."""


class Server(Protocol):
    """What listens at an address."""

    host: str

    @property
    def up(self) -> bool: ...
    @property
    def life(self) -> int:
        """Counts its starts: connections of an earlier life are gone."""
        ...

    def resume(self, action: Any) -> None:
        """Do `action` now, or once it goes on after it stood still."""
        ...

    def answer(self, stream: bytes, peer: str) -> bytes | None: ...
    def web(self, path: str, values: dict[str, str]) -> bytes: ...


@dataclass
class Weather:
    """Chances at each request."""

    breaks: float = 0.0
    """The connection breaks; the server may have the request, or get it later."""
    slow: float = 0.0
    """It takes up to some seconds instead of milliseconds."""
    latency_seconds: float = 0.001


class Network:
    """All servers by address, and who cannot reach whom."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.weather = Weather()
        self.servers: dict[str, Server] = {}
        self.webs: dict[str, Server] = {}
        self._parted: dict[frozenset[str], int] = {}
        self.numbers = 0

    def part(self, one: str, other: str) -> None:
        """Let nothing pass between two hosts."""
        pair = frozenset((one, other))
        self._parted[pair] = self._parted.get(pair, 0) + 1

    def rejoin(self, one: str, other: str) -> None:
        pair = frozenset((one, other))
        left = self._parted.pop(pair, 0) - 1
        if left > 0:
            self._parted[pair] = left

    def heal(self) -> None:
        """Let everything pass."""
        self._parted.clear()

    def passes(self, one: str, other: str) -> bool:
        return not self._parted or frozenset((one, other)) not in self._parted

    def delay(self) -> float:
        draw = self.hub.random.random
        delay = self.weather.latency_seconds * (0.5 + draw())
        if self.weather.slow and draw() < self.weather.slow:
            delay += 6.0 * draw() ** 2
        return delay


_network: Network | None = None


def set_network(network: Network) -> None:
    global _network
    _network = network


def network_of() -> Network:
    assert _network is not None
    return _network


class Connection:
    """tubeclient.net.connection.Connection."""

    def __init__(self, address: str, *, connect_timeout_ms: int, send_timeout_ms: int, tls: object = None) -> None:
        self.network, hub = network_of(), current()
        self.network.numbers += 1
        self.number = self.network.numbers
        self.address = address
        self._process: Process = hub.process
        server = self.network.servers.get(address)
        host = address.partition(":")[0]
        if not self.network.passes(self._process.host, host):
            hub.sleep(connect_timeout_ms / 1000)
            raise ConnectError(
                f"cannot connect to {address}: no answer within {connect_timeout_ms} ms", address=address
            )
        hub.sleep(self.network.delay())
        if server is None or not server.up:
            raise ConnectError(f"cannot connect to {address}: refused", address=address)
        self._server = server
        self._life = server.life
        self._waiting: dict[int, Callable[[bytes | TubeError], None]] = {}
        self._serial = 0
        self._last_arrival = 0.0
        self._in_vain_since = inf
        self._gone: ConnectionLost | None = None

    @property
    def closed(self) -> bool:
        if self._gone is None and self._server.life != self._life:
            self.end("the server closed it")
        return self._gone is not None

    def submit_many(self, streams: Sequence[bytes]) -> list[Future[Frame]]:
        hub = current()
        hub.check()
        if self.closed:
            raise ConnectionLost(f"the connection to {self.address} is closed", address=self.address)
        self._in_vain_since = min(self._in_vain_since, hub.now)
        draw = hub.random.random
        futures: list[Future[Frame]] = []
        breaks = self.network.weather.breaks and draw() < self.network.weather.breaks
        for stream in streams:
            self._serial += 1
            future = _Awaited(self._waiting, self._serial)
            self._waiting[self._serial] = future.settle
            futures.append(future)
            self._last_arrival = max(self._last_arrival, hub.now + self.network.delay())
            if breaks:
                if draw() < 0.5:
                    continue  # it is lost
                if draw() < 0.5:
                    self._last_arrival += LATEST_SECONDS * 10 ** (-4 * draw())
            self._send(self._serial, stream)
        if breaks:
            hub.at(self.network.delay(), lambda: self.end("it broke"))
        return futures

    def _send(self, serial: int, stream: bytes) -> None:
        def arrive() -> None:
            server, process = self._server, self._process
            if server.life != self._life or not server.up or not self.network.passes(process.host, server.host):
                return
            answer = server.answer(stream, process.name)
            if answer is not None:
                self.network.hub.at(self.network.delay(), lambda: self._deliver(serial, answer))

        self.network.hub.at(self._last_arrival - self.network.hub.now, lambda: self._server.resume(arrive))

    def _deliver(self, serial: int, answer: bytes) -> None:
        if not self.network.passes(self._process.host, self._server.host):
            return
        receiver = self._waiting.pop(serial, None)
        if receiver is not None:
            self._in_vain_since = self.network.hub.now if self._waiting else inf
        if receiver is not None and self._gone is None and not self._process.dead:
            self._process.run(lambda: receiver(answer), "settle")

    def give_up_if_silent(self, seconds: float) -> None:
        if self.network.hub.now - self._in_vain_since > seconds - 0.05:
            self.end("no answer arrived in time")

    def end(self, why: str) -> None:
        """Break it, as the network or the server does."""
        if self._gone is not None:
            return
        self._gone = ConnectionLost(f"the connection to {self.address} broke: {why}", address=self.address)
        waiting = list(self._waiting.values())
        self._waiting.clear()
        gone = self._gone

        def fail() -> None:
            for receiver in waiting:
                receiver(gone)

        if waiting and not self._process.dead:
            self._process.run(fail, "end")

    def close(self) -> None:
        self.end("closed here")


def fetch(address: str, method: str, path: str, body: bytes, headers: object, *, seconds: float) -> tuple[int, bytes]:
    """tubeclient.net.http.fetch."""
    hub, network = current(), network_of()
    hub.check()
    host = address.partition(":")[0]
    process = hub.process
    if not network.passes(process.host, host):
        hub.sleep(seconds)
        raise TimeoutError("timed out")
    hub.sleep(network.delay())
    server = network.webs.get(address)
    if server is None or not server.up:
        raise ConnectionRefusedError("refused")
    query = urllib.parse.urlsplit(path).query
    values = dict(urllib.parse.parse_qsl(query)) | dict(urllib.parse.parse_qsl(body.decode()))
    answers: list[bytes] = []
    token, fiber = hub.expect(), hub.fiber

    def arrive() -> None:
        if server.up:
            answers.append(server.web(path, values))
            hub.wake(fiber, token)

    server.resume(arrive)
    if not hub.wait(token, seconds) and not answers:
        raise TimeoutError("timed out")
    hub.sleep(network.delay())
    if not network.passes(process.host, host):
        raise TimeoutError("timed out")
    return 200, answers[0]
