"""A broker that is slow, or a fault of this machine, costs the messages it meets an attempt, and the others nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.stored import bodies
from tests.waiting import wait_for
from tubeclient import ClientClosed, ClientSettings, DeadlineExceeded, Producer

SENDS = 20
LIMIT_MS = 6_000
LONGER_MS = 8_000
"""So long a broker may hold up who waits for it: a message of LIMIT_MS that does is lost."""


def separate(producer: Producer, dead_port: int | None = None) -> None:
    """Let topic clicks be on broker 1 alone, at another port if one is given, and single on broker 2."""
    session = producer._session
    layouts = [layout for layout in session.layouts if (layout.topic == "clicks") == (layout.broker_id == 1)]
    brokers = dict(session.brokers)
    if dead_port is not None:
        brokers[1] = brokers[1]._replace(host="127.0.0.1", port=dead_port)
    with producer._sender.lock:
        producer._routes.publish({}, layouts, brokers)


@contextlib.contextmanager
def port_that_drops_connections() -> Iterator[int]:
    """A port whose queue is full, so that whoever connects hears nothing."""
    with contextlib.ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            filling = sockets.enter_context(socket.socket())
            filling.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filling.connect(listening.getsockname())
        yield listening.getsockname()[1]


def test_broker_without_connections(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """A broker that accepts no connection delays no other broker's messages."""
    with Producer(replace(settings, connect_timeout_ms=LONGER_MS, retry_limit_ms=60_000)) as producer:
        producer.publish(["clicks", "single"])
        with port_that_drops_connections() as port:
            separate(producer, port)
            dead = producer.submit("clicks", b"x")
            for number in range(SENDS):
                producer.send("single", b"%d" % number, timeout_ms=LIMIT_MS)
            assert not dead.done()
            with pytest.raises(DeadlineExceeded, match="still in flight"):
                producer.flush(timeout_ms=0)
            producer.close(timeout_ms=0)
    assert isinstance(dead.exception(0), ClientClosed)
    assert bodies(cluster, "single") == {b"%d" % number: 1 for number in range(SENDS)}


def test_stuck_messages(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """Also where fewer places are left than a caller waits for."""
    limits = replace(settings, connect_timeout_ms=LONGER_MS, retry_limit_ms=60_000)
    with Producer(limits, max_in_flight=8) as producer, port_that_drops_connections() as port:
        producer.publish(["clicks", "single"])
        separate(producer, port)
        stuck = producer.submit_many("clicks", [b"x"] * 7)
        for future in producer.submit_many("single", [b"y"] * SENDS, timeout_ms=LIMIT_MS):
            assert future.result(30)
        assert not any(future.done() for future in stuck)
        producer.close(timeout_ms=0)


def test_broker_that_reads_slowly(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """While some are being written, and others wait behind them. Then the connection is given up, as it has no place
    for more."""
    over = threading.Event()

    def read_slowly() -> None:
        accepted, _ = slow.accept()
        with accepted, contextlib.suppress(OSError):
            while accepted.recv(1_000) and not over.wait(0.01):
                pass

    with Producer(replace(settings, retry_limit_ms=60_000)) as producer, socket.socket() as slow:
        producer.publish(["clicks", "single"])
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.bind(("127.0.0.1", 0))
        slow.listen()
        reading = threading.Thread(target=read_slowly)
        reading.start()
        separate(producer, slow.getsockname()[1])
        late = [
            *producer.submit_many("clicks", [bytes(1 << 19)] * 20, timeout_ms=1_000),
            *producer.submit_many("clicks", [bytes(1 << 19)] * 20, timeout_ms=1_500),
        ]
        connections = producer._pool
        address = f"127.0.0.1:{slow.getsockname()[1]}"
        wait_for(lambda: connections.live(address) is not None, "a connection")
        connection = connections.live(address)
        assert connection is not None
        for future in late:
            with pytest.raises(
                DeadlineExceeded, match=r"writing it to \S+ took too long|waited too long in the queue to"
            ):
                future.result(5)
        wait_for(lambda: connection.closed, "the end of the connection")
        assert producer.send("single", b"x")
        over.set()
        reading.join(30)
        assert not reading.is_alive()
    assert bodies(cluster, "single") == {b"x": 1}
