"""The recorder: a TCP relay before a master and its brokers that keeps what passes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from tests.embedded_tubemq.raw_client import RawClient
from tests.receiving import POLL_SECONDS, received
from tests.recorder.exchanges import MASTER, Exchange, broker_name
from tubeclient import BrokerInfo
from tubeclient.wire.envelope import encode_response
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame
from tubeclient.wire.strings import parse_broker

__all__ = ["BROKER_LISTS", "Recorder"]

BROKER_LISTS = ("brokerInfos", "brokerConfigList")
"""The fields of a master's answers that tell clients where brokers are."""


class Recorder:
    """Clients that know `master_address` find the brokers here too. A context manager.

    One request at a time is with the servers, so that what was recorded can be asked again in the same order.
    """

    def __init__(self, master_address: str, brokers: Mapping[int, BrokerInfo]) -> None:
        self.step = ""
        """What the clients are about; is kept with each exchange."""
        self.exchanges: list[Exchange] = []
        self.started_ms = time.time_ns() // 1_000_000
        self._servers = {MASTER: master_address} | {broker_name(one.broker_id): one.address for one in brokers.values()}
        self._listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in self._servers}
        self._over = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, args=(name,)) for name in self._servers]

    @property
    def master_address(self) -> str:
        """What clients are told to connect to."""
        return self.address(MASTER)

    def address(self, server: str) -> str:
        """Where clients reach a server."""
        return f"127.0.0.1:{self._listeners[server].getsockname()[1]}"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        for listener in self._listeners.values():
            listener.close()

    def _accept(self, server: str) -> None:
        listener = self._listeners[server]
        listener.settimeout(POLL_SECONDS)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = listener.accept()
                thread = threading.Thread(target=self._relay, args=(server, client))
                self._threads.append(thread)
                thread.start()

    def _relay(self, server: str, client: socket.socket) -> None:
        with client, RawClient(self._servers[server]) as behind:
            for request in self._requests(client):
                with self._one_at_a_time:
                    at_ms = time.time_ns() // 1_000_000 - self.started_ms
                    behind.socket.sendall(encode_frame(request.serial, request.stream))
                    answer = behind.next_frame()
                    exchange = Exchange(self.step, at_ms, server, request.stream, answer.stream)
                    self.exchanges.append(exchange)
                assert answer.serial == request.serial
                with contextlib.suppress(OSError):  # the client may have gone
                    client.sendall(encode_frame(answer.serial, self._for_clients(exchange)))

    def _requests(self, client: socket.socket) -> Iterator[Frame]:
        decoder = FrameDecoder()
        for data in received(client, self._over):
            yield from decoder.feed(data)

    def _for_clients(self, exchange: Exchange) -> bytes:
        """The answer's stream with the recorder's addresses in the place of the brokers'."""
        answer = exchange.answer
        if not any(getattr(answer, name, ()) for name in BROKER_LISTS):
            return exchange.answer_stream
        for name in BROKER_LISTS:
            if name in answer.DESCRIPTOR.fields_by_name:
                self._readdress(getattr(answer, name))
        return encode_response(exchange.method.spec.method_id, answer.SerializeToString())

    def _readdress(self, texts: Any) -> None:
        for number, text in enumerate(texts):
            broker_id = parse_broker(text).broker_id
            texts[number] = f"{broker_id}:{self.address(broker_name(broker_id))}"
