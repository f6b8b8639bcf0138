"""Executes the effects of flows: requests over a connection pool, waits in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from tubeclient.errors import ConnectionLost, DeadlineExceeded, ProtocolError, RemoteError, TubeError
from tubeclient.flows.effects import (
    ConnectionTo,
    Done,
    Effect,
    Emit,
    Flow,
    Notify,
    Now,
    Receive,
    Send,
    SendAll,
    Sleep,
    Ticket,
    WallClock,
)
from tubeclient.net.connection import Connection
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.waiting import Alarm, Bell
from tubeclient.wire.envelope import Part, decode_response, encode_request, parse_message
from tubeclient.wire.framing import Frame
from tubeclient.wire.methods import Method

T = TypeVar("T")

_ENDS_OF_STEPS = (Send, Receive, Emit, SendAll, Sleep)


class Pending(NamedTuple):
    """A ticket of this runner: an answer that is due by `deadline`."""

    connection: Connection
    method: Method
    parse: Callable[[Part], Any] | None
    future: Future[Frame]
    timeout_ms: int
    deadline: float  # by time.monotonic(), seconds


class Monitor:
    """Shared by flows with common state: runs one step at a time, and has signals to wait for."""

    def __init__(self) -> None:
        # Re-entrant: a flow garbage-collected during another flow's step is also closed under the lock.
        self.lock = threading.RLock()
        self._signals: dict[str, Bell] = {}

    def expect(self, signal: str) -> Alarm:
        """What the next `signal` sets; call with the lock held, and wait without it."""
        return self._signals.setdefault(signal, Bell()).expect()

    def notify(self, signal: str) -> None:
        """Wake all waiters for `signal`."""
        with self.lock:
            if signal in self._signals:
                self._signals[signal].ring()


class FlowRunner:
    """Runs flows on the calling thread. `wake` cuts short the running flow's sleep. Flows with common state need
    runners with the same `monitor`."""

    def __init__(self, pool: ConnectionPool, monitor: Monitor | None = None) -> None:
        self._pool = pool
        self._monitor = monitor or Monitor()
        self._wake = Alarm()
        self._awaited: Future[Frame] | None = None
        self._stopped: TubeError | None = None

    def stop(self, error: TubeError) -> None:
        """Raise `error` in the running flow, also where it waits, and in all later ones. Any thread may call it."""
        self._stopped = error
        self._wake.set()
        if (awaited := self._awaited) is not None:
            awaited.cancel()

    def run(self, flow: Flow[T], on_event: Callable[[Any], None] | None = None) -> T:
        """Run a flow to its end and return its result; `on_event` gets its emitted values."""
        steps = self.iterate(flow)
        while True:
            try:
                event = next(steps)
            except StopIteration as stop:
                return cast(T, stop.value)
            if on_event is not None:
                on_event(event)

    def iterate(self, flow: Flow[T]) -> Generator[Any, None, T]:
        """Run a flow while its emitted values are iterated; closing the iterator closes the flow."""
        result: Any = None
        failure: TubeError | None = None
        try:
            while True:
                try:
                    effect, woken = self._step(flow, result, failure)
                except StopIteration as stop:
                    return cast(T, stop.value)
                result, failure = None, None
                if isinstance(effect, Emit):
                    yield effect.value
                elif woken is not None:
                    result = woken.wait(effect.delay_ms / 1000)
                else:
                    try:
                        result = self._carry_out(effect)
                    except TubeError as error:
                        failure = error
        finally:
            self._close(flow)

    def _close(self, flow: Flow[Any]) -> None:
        """Close a flow before its end."""
        if self._pool.inherited:  # a thread that does not exist in this process may hold the lock
            flow.close()
        else:
            with self._monitor.lock:
                flow.close()

    def _step(self, flow: Flow[Any], result: Any, failure: TubeError | None) -> tuple[Any, Alarm | None]:
        """Run a flow to the end of its step. Returns the effect that ended it, and for a sleep on a signal what that
        sets."""
        self._pool.check_process()
        with self._monitor.lock:
            effect = flow.send(result) if failure is None else flow.throw(failure)
            while not isinstance(effect, _ENDS_OF_STEPS):
                effect = flow.send(self._answer(effect))
            signal = effect.signal if isinstance(effect, Sleep) else ""
            return effect, self._monitor.expect(signal) if signal else None

    def _answer(self, effect: Effect) -> Any:
        """The result of an effect that ends no step."""
        if isinstance(effect, Now):
            return time.monotonic() * 1000
        if isinstance(effect, WallClock):
            return time.time() * 1000
        if isinstance(effect, Done):
            pending = cast(Pending, effect.ticket)
            return pending.future.done() or time.monotonic() >= pending.deadline
        if isinstance(effect, ConnectionTo):
            connection = self._pool.live(effect.address)
            return None if connection is None else connection.number
        if isinstance(effect, Notify):
            return self._monitor.notify(effect.signal)
        raise TypeError(f"a flow asked for {effect!r}")

    def wake(self) -> None:
        """Cut the current sleep short, or the next one."""
        self._pool.check_process()
        self._wake.set()

    def _carry_out(self, effect: Effect) -> Any:
        if self._stopped is not None:
            raise self._stopped
        if isinstance(effect, Send):
            return self._send((effect,))[0]
        if isinstance(effect, SendAll):
            return self._send(effect.sends)
        if isinstance(effect, Receive):
            return self._receive(effect.ticket)
        assert isinstance(effect, Sleep)
        return self._wake.wait(effect.delay_ms / 1000)

    def _send(self, sends: Sequence[Send]) -> list[Ticket]:
        address = sends[0].address
        limits_ms = [round(self._pool.settings.rpc_timeout_ms * send.time_share) for send in sends]
        streams = [_stream(send, limit_ms) for send, limit_ms in zip(sends, limits_ms, strict=True)]
        now = time.monotonic()  # after connecting
        connection = self._pool.get(address, min(limits_ms))
        futures = connection.submit_many(streams)
        tickets: list[Ticket] = []
        for send, limit_ms, future in zip(sends, limits_ms, futures, strict=True):
            if send.signal:
                future.add_done_callback(partial(_notify, self._monitor, send.signal))
            deadline = now + limit_ms / 1000
            tickets.append(Ticket(Pending(connection, send.method, send.parse, future, limit_ms, deadline)))
        return tickets

    def _receive(self, ticket: Ticket) -> Any:
        pending = cast(Pending, ticket)
        address = pending.connection.address
        self._awaited = pending.future
        try:
            if self._stopped is not None:
                raise self._stopped
            answer = pending.future.result(max(0.0, pending.deadline - time.monotonic()))
        except CancelledError:
            raise self._stopped or ConnectionLost(f"{address}: given up", address=address) from None
        except TimeoutError as error:
            if isinstance(error, TubeError):
                raise
            pending.future.cancel()
            pending.connection.give_up_if_silent(pending.timeout_ms / 1000)
            raise DeadlineExceeded(
                f"{address} did not answer {pending.method.name} within {pending.timeout_ms} ms", address=address
            ) from None
        finally:
            self._awaited = None
        try:
            part = decode_response(answer.stream, pending.method.spec.method_id)
            return pending.parse(part) if pending.parse else parse_message(pending.method.spec.response, part.data)
        except RemoteError as error:
            raise type(error)(error.exception_name, error.text, address=address) from None
        except ConnectionLost as error:
            raise ConnectionLost(f"{address}: {error}", address=address) from None
        except ProtocolError as error:
            raise ProtocolError(f"{address} answered {pending.method.name} with {error}") from error


def _notify(monitor: Monitor, signal: str, _: object) -> None:
    monitor.notify(signal)


def _stream(send: Send, timeout_ms: int) -> bytes:
    spec = send.method.spec
    return encode_request(spec.service, spec.method_id, send.request.SerializeToString(), timeout_ms)
