"""The embedded servers' entry points: their calls, their TCP ports and their web ports."""

from __future__ import annotations

import logging
import socket
import ssl
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from aiohttp.http_exceptions import HttpProcessingError

from embedded_tubemq.broker.admin import BrokerAdmin
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.admin import Parameters
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.peer import Peer
from embedded_tubemq.master.admin import MasterAdmin
from embedded_tubemq.net.rpc import Endpoint
from embedded_tubemq.net.tls import ServerTls
from tests.certificates import CertificateAuthority
from tests.embedded_tubemq.machines import START_MS, FakeBroker, FakeMaster
from tests.embedded_tubemq.raw_client import RawClient, http_get
from tests.fuzz import seeds
from tests.fuzz.target import Find, Input, Run, Target
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.methods import Method
from tubeclient.wire.web_json import write_json

__all__ = ["SERVERS"]

_METHODS = list(Method)
_PEER = Peer("127.0.0.1:5")
_WAIT_SECONDS = 10.0
_ASKING = {"clientId": "c", "groupName": "g"}
_TOPIC = TopicConfig("clicks", 2, 2)


class _Failures(logging.Handler):
    """What the servers log when a handler fails: they answer, and go on."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            return  # bytes that are not HTTP: aiohttp answers 400
        self.found.append(f"{record.getMessage()}: {type(error).__name__}: {error}")

    def check(self) -> None:
        """Raise a Find if something failed since the last check."""
        found, self.found = self.found, []
        if found:
            raise Find("; ".join(found))


@contextmanager
def _failures() -> Iterator[_Failures]:
    """The failures of the servers, and of asyncio, which logs what no handler caught."""
    failures = _Failures()
    loggers = [logging.getLogger(name) for name in ("embedded_tubemq", "asyncio", "aiohttp")]
    for logger in loggers:
        logger.addHandler(failures)
        logger.propagate = False
    try:
        yield failures
    finally:
        for logger in loggers:
            logger.removeHandler(failures)
            logger.propagate = True


class _NoTopics:
    """A cluster around the master that changes nothing."""

    def put_topic(self, topic: TopicConfig) -> None:
        pass

    def remove_topic(self, name: str) -> None:
        pass


def _each_call(endpoint: Callable[[], Endpoint], failures: _Failures, data: bytes) -> None:
    given, server = Input(data), endpoint()
    while length := int.from_bytes(given.piece(2)):
        one = Input(given.piece(length))
        spec = _METHODS[one.number() % len(_METHODS)].spec
        stream = encode_request(spec.service, spec.method_id, one.rest(), 1000)
        if server.answer(stream, _PEER).stream is None:
            raise Find("a request without an answer")
        failures.check()


@contextmanager
def _master_calls() -> Iterator[Run]:
    with _failures() as failures:
        yield partial(_each_call, lambda: Endpoint(FakeMaster(_TOPIC).machine, lambda: START_MS), failures)


@contextmanager
def _broker_calls() -> Iterator[Run]:
    with _failures() as failures:

        def run(data: bytes) -> None:
            with tempfile.TemporaryDirectory(dir=_fast()) as folder:
                broker = FakeBroker(Path(folder), _TOPIC)
                broker.send(b"first", topic="clicks")
                _each_call(lambda: Endpoint(broker.machine, lambda: START_MS), failures, data)
                broker.machine.tick(START_MS + 100_000)
                write_json(broker.offsets.dump())
                broker.stores.close()

        yield run


def _queries(data: bytes) -> Iterator[Parameters]:
    for line in data.decode(errors="replace").split("\n"):
        yield Parameters(dict(urllib.parse.parse_qsl(line)))


@contextmanager
def _master_admin() -> Iterator[Run]:
    def run(data: bytes) -> None:
        admin = MasterAdmin(FakeMaster(_TOPIC).machine, _NoTopics(), "t", lambda: START_MS)
        for query in _queries(data):
            write_json(admin.call(query))

    yield run


@contextmanager
def _broker_admin() -> Iterator[Run]:
    def run(data: bytes) -> None:
        with tempfile.TemporaryDirectory(dir=_fast()) as folder:
            broker = FakeBroker(Path(folder), _TOPIC)
            broker.send(b"first", topic="clicks")
            broker.register(topicName="clicks")
            broker.fetch(topicName="clicks")
            for query in _queries(data):
                write_json(BrokerAdmin(broker.machine).call(query))
            broker.commit(topicName="clicks")
            write_json(broker.offsets.dump())
            broker.stores.close()

    yield run


@contextmanager
def _port(choose: Callable[[EmbeddedTubeMQ], int], *, over_tls: bool = False) -> Iterator[Run]:
    """Bytes over a connection of their own. Then the port must still serve others, and with `over_tls` a new one too,
    which begins with a handshake."""
    with (
        _failures() as failures,
        tempfile.TemporaryDirectory(dir=_fast()) as folder,
        _tube(Path(folder), over_tls) as (tube, context),
    ):
        addresses = tube.broker_addresses if context is None else tube.broker_tls_addresses
        master_address = tube.master_address if context is None else tube.master_tls_address
        other_master = RawClient(master_address, context)
        other_broker = RawClient(addresses[1], context)

        def run(data: bytes) -> None:
            _send(choose(tube), data)
            other_master.call(Method.PARTITION_METADATA, **_ASKING, brokerConfigId=-2, topicMetaInfoId=-2)
            other_broker.call(Method.COMMIT_OFFSET, **_ASKING, topicName="clicks", partitionId=0)
            if context is not None:
                RawClient(f"127.0.0.1:{choose(tube)}", context).close()
            for web_port in (tube.master_web_port, tube.broker_web_ports[1]):
                if choose(tube) == web_port:
                    http_get(web_port, "admin_query_pubinfo")
            failures.check()

        try:
            yield run
        finally:
            other_master.socket.close()
            other_broker.socket.close()


@contextmanager
def _tube(folder: Path, over_tls: bool) -> Iterator[tuple[EmbeddedTubeMQ, ssl.SSLContext | None]]:
    """Servers, and what their clients trust if they also have ports for TLS."""
    if not over_tls:
        with EmbeddedTubeMQ(folder / "data", [_TOPIC]) as tube:
            yield tube, None
        return
    authority = CertificateAuthority(folder / "certificates")
    made = authority.issue("server")
    tls = ServerTls(made.certificate_file, made.key_file)
    with EmbeddedTubeMQ(folder / "data", [_TOPIC], tls=tls) as tube:
        yield tube, ssl.create_default_context(cafile=authority.ca_file)


def _send(port: int, data: bytes) -> None:
    """Send all, and read to the end of the connection, which the server must give it once it has the end of ours."""
    with socket.create_connection(("127.0.0.1", port), _WAIT_SECONDS) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except TimeoutError as error:
            raise Find(f"the server holds a connection that is over for {_WAIT_SECONDS:.0f} s") from error
        except OSError:
            pass  # it cut the connection


def _fast() -> str | None:
    """Where files cost the least."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _number(address: str) -> int:
    return int(address.rpartition(":")[2])


def _broker_port(tube: EmbeddedTubeMQ) -> int:
    return _number(tube.broker_addresses[1])


def _master_port(tube: EmbeddedTubeMQ) -> int:
    return _number(tube.master_address)


def _broker_tls_port(tube: EmbeddedTubeMQ) -> int:
    return _number(tube.broker_tls_addresses[1])


def _master_tls_port(tube: EmbeddedTubeMQ) -> int:
    return _number(tube.master_tls_address)


SERVERS = [
    Target("master_calls", _master_calls, seeds.calls),
    Target("broker_calls", _broker_calls, seeds.calls),
    Target("master_admin", _master_admin, seeds.queries),
    Target("broker_admin", _broker_admin, seeds.queries),
    Target("master_port", lambda: _port(_master_port), seeds.streams),
    Target("broker_port", lambda: _port(_broker_port), seeds.streams),
    Target("master_tls_port", lambda: _port(_master_tls_port, over_tls=True), seeds.handshakes),
    Target("broker_tls_port", lambda: _port(_broker_tls_port, over_tls=True), seeds.handshakes),
    Target("master_web", lambda: _port(lambda tube: tube.master_web_port), seeds.web_requests),
    Target("broker_web", lambda: _port(lambda tube: tube.broker_web_ports[1]), seeds.web_requests),
]
