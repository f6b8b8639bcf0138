"""One connection to a master or broker, over TCP or TLS, shared by any number of callers.

Requests are numbered, and several may be in flight. A thread per connection reads the answers and settles their
futures.
"""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import compress, repeat
from math import inf
from typing import Any, TypeAlias, TypeVar

from tubeclient.errors import ConnectError, ConnectionLost, ProtocolError, TransportError, TubeError
from tubeclient.identity import host_name
from tubeclient.net.fork import ProcessBound
from tubeclient.net.streams import REFUSED_ADVICE, PlainStream, TlsStream, client_context, describe, handshake_advice
from tubeclient.net.waiting import Outcome
from tubeclient.settings import TlsSettings
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame

_log = logging.getLogger(__name__)

_numbers = itertools.count(1)
_JOIN_SECONDS = 5.0
_SLACK_SECONDS = 0.05
"""Between the moments from which a caller and a connection count."""
_MANY_WAITING = 100
_GATHER_SECONDS = 0.0005
"""A pause between reads while many answers are awaited: more come in each, for up to 7 % less CPU time."""


def split_address(address: str) -> tuple[str, int]:
    """Return (host, port) of "host:port"."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


T = TypeVar("T")

Receiver: TypeAlias = Callable[[list[T], list[bytes] | TubeError], None]
"""Takes requests, each once, with their answers' streams, or the reason why none will come: on the connection's thread
or that of whoever ends it. It neither waits nor raises."""


class _Awaited(Outcome[Frame]):
    """The future of an answer. Cancelling it frees its serial number's entry: servers never answer requests that are
    too old."""

    def __init__(self, waiting: dict[int, Any], serial: int) -> None:
        super().__init__()
        self.serial = serial
        self._waiting = waiting

    def cancel(self) -> bool:
        self._waiting.pop(self.serial, None)
        return super().cancel()

    def settle(self, answer: bytes | TubeError) -> None:
        if self.set_running_or_notify_cancel():
            if isinstance(answer, TubeError):
                self.set_exception(answer)
            else:
                self.set_result(Frame(self.serial, answer))


def _settle(futures: list[_Awaited], answers: list[bytes] | TubeError) -> None:
    for number, future in enumerate(futures):
        future.settle(answers if isinstance(answers, TubeError) else answers[number])


class Connection(ProcessBound):
    """A connection to `address` ("host:port"); `submit` may be called from any thread.

    When it ends, every pending answer fails with the reason, and `closed` stays true. A server that closes a TLS
    connection before its first answer has rejected it (for example because of a missing client certificate): a
    ConnectError too."""

    def __init__(
        self, address: str, *, connect_timeout_ms: int, send_timeout_ms: int, tls: TlsSettings | None = None
    ) -> None:
        super().__init__()
        self.address = address
        self.number = next(_numbers)
        """Unique among the connections of the process."""
        self._tls = tls is not None
        self._answered = False
        self._in_vain_since = inf  # by time.monotonic(): an answer is awaited, and none came that was
        self._stream = _open(address, tls, connect_timeout_ms, send_timeout_ms)
        self._serials = itertools.count(1)
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._waiting: dict[int, tuple[Receiver[Any], Any]] = {}
        self._end: TubeError | None = None
        self._reader = threading.Thread(target=self._read, name=f"tubeclient-read-{address}", daemon=True)
        try:
            self._reader.start()
        except RuntimeError as error:  # the system is out of threads for now
            self._stream.close()
            raise ConnectError(f"{host_name()} cannot connect to {address}: {error}", address=address) from error

    @property
    def closed(self) -> bool:
        return self._end is not None

    def submit(self, stream: bytes) -> Future[Frame]:
        """Send a request's stream; the future gives the response. ConnectionLost if sending fails."""
        return self.submit_many([stream])[0]

    def submit_many(self, streams: Sequence[bytes]) -> list[Future[Frame]]:
        """Send requests with one write, in this order; ConnectionLost if sending fails."""
        serials = self._take_serials(len(streams))
        futures = [_Awaited(self._waiting, serial) for serial in serials]
        self._send(serials, b"".join(map(encode_frame, serials, streams)), futures, _settle)
        return [*futures]

    def post(self, requests: Sequence[T], encode: Callable[[list[int]], bytes], receive: Receiver[T]) -> list[int]:
        """Send requests with one write: the frames that `encode` gives for serial numbers, which are returned, for
        `forget`. ConnectionLost if sending fails; `receive` may have got the reason too."""
        serials = self._take_serials(len(requests))
        self._send(serials, encode(serials), requests, receive)
        return serials

    def forget(self, serial: int) -> None:
        """Wait no longer for an answer: servers never answer requests that are too old."""
        self._waiting.pop(serial, None)

    def _take_serials(self, count: int) -> list[int]:
        self.check_process()
        return [next(self._serials) & 0x7FFFFFFF for _ in range(count)]

    def _send(self, serials: Sequence[int], frames: bytes, requests: Sequence[T], receive: Receiver[T]) -> None:
        with self._lock:
            if self._end is not None:
                kind = ConnectError if isinstance(self._end, ConnectError) else ConnectionLost
                raise kind(f"the connection to {self.address} is closed: {self._end}", address=self.address)
            self._in_vain_since = min(self._in_vain_since, time.monotonic())
            self._waiting.update(zip(serials, zip(repeat(receive), requests), strict=True))
        try:
            with self._write_lock:
                self._stream.send(frames)
        except OSError as error:
            what = f"sending to {self.address} failed"
            if isinstance(error, BlockingIOError):
                lost: TransportError = ConnectionLost(f"{what}: it took too long", address=self.address)
            else:
                lost = self._lost(f"{what}: {describe(error)}")
            self._finish(lost)
            raise lost from error.with_traceback(None)  # by its frames it would keep what was to be sent
        except BaseException:  # the caller was interrupted, perhaps in the middle of a frame
            self.break_off("sending was interrupted")
            raise

    def close(self) -> None:
        """End the connection and its thread. Pending answers fail with ConnectionLost."""
        if self.inherited:
            return
        self.break_off("it was closed")
        if self._reader is not threading.current_thread():
            self._reader.join(_JOIN_SECONDS)

    def break_off(self, why: str) -> None:
        """End the connection from any thread, without waiting for its own. Pending answers, and a send that is held
        up, fail with ConnectionLost."""
        self._finish(
            ConnectionLost(f"the connection to {self.address} was closed by this client: {why}", address=self.address)
        )

    def give_up_if_silent(self, seconds: float) -> None:
        """Call it when an answer is late. Breaks off if none in time came for so long: the way may be cut or clogged,
        and the next request takes another. The server may still carry out what was asked."""
        if time.monotonic() - self._in_vain_since > seconds - _SLACK_SECONDS:
            self.break_off("no answer arrived in time")

    def _read(self) -> None:
        decoder = FrameDecoder()
        try:
            while True:
                if len(self._waiting) > _MANY_WAITING:
                    time.sleep(_GATHER_SECONDS)
                with decoder.room() as room:
                    received = self._stream.receive_into(room)
                if not received:
                    break
                if frames := decoder.received(received):
                    self._answered = True
                    self._settle(frames)
            self._finish(self._lost(f"{self.address} closed the connection"))
        except ProtocolError as error:
            self._finish(ProtocolError(f"from {self.address}: {error}"))
        except OSError as error:
            self._finish(self._lost(f"the connection to {self.address} broke: {describe(error)}"))
        except Exception as error:  # otherwise nobody would read its answers, and nobody would notice
            _log.warning("reading from %s failed", self.address, exc_info=True)
            self._finish(ConnectionLost(f"reading from {self.address} failed: {error!r}", address=self.address))
        finally:
            self._stream.close()

    def _lost(self, what: str) -> TransportError:
        if self._answered:
            return ConnectionLost(what, address=self.address)
        what += " before its first answer"
        if self._tls:
            return ConnectError(f"{what}; {REFUSED_ADVICE}", address=self.address)
        return ConnectionLost(f"{what}; if that is a TLS port, give TLS settings", address=self.address)

    def _settle(self, frames: Sequence[Frame]) -> None:
        nobody = _drop, self.address
        with self._lock:
            found = [self._waiting.pop(serial, nobody) for serial, _ in frames]
            if any(waiter is not nobody for waiter in found):
                self._in_vain_since = time.monotonic() if self._waiting else inf
        for receive in {receive for receive, _ in found}:  # one, nearly always
            mine = [of == receive for of, _ in found]
            receive([request for _, request in compress(found, mine)], [stream for _, stream in compress(frames, mine)])

    def _finish(self, reason: TubeError) -> None:
        """Do also the rest of an end that was interrupted. The reading thread comes here too; nothing interrupts it."""
        with self._lock:
            if self._end is None:
                self._end = reason
            reason = self._end
        self._stream.shut_down()  # wakes the reading thread, which closes the stream
        for serial in list(self._waiting):  # in one step: cancelling one takes it out
            if (found := self._waiting.pop(serial, None)) is not None:
                receive, request = found
                receive([request], reason)


def _drop(addresses: list[str], _: object) -> None:
    """Takes answers whose callers gave up, or that came twice."""
    _log.debug("%d unexpected answers from %s", len(addresses), addresses[0])


def _open(address: str, tls: TlsSettings | None, connect_timeout_ms: int, send_timeout_ms: int) -> PlainStream:
    deadline = time.monotonic() + connect_timeout_ms / 1000
    context = None if tls is None else client_context(tls)
    host, port = split_address(address)
    fails = f"{host_name()} cannot connect to {address}"
    try:
        connected = socket.create_connection((host, port), connect_timeout_ms / 1000)
    except (OSError, UnicodeError) as error:  # the latter for a name that resolvers do not take
        reason = f"no answer within {connect_timeout_ms} ms" if isinstance(error, TimeoutError) else describe(error)
        raise ConnectError(f"{fails}: {reason}", address=address) from error
    try:
        if context is None:
            return PlainStream(connected, send_timeout_ms)
        return TlsStream(connected, context, host, deadline, send_timeout_ms)
    except OSError as error:
        connected.close()
        raise ConnectError(f"{fails} over TLS: {handshake_advice(error, host)}", address=address) from error
