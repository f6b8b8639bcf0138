"""Carries out the effects of flows: requests over a connection pool, waits in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar, cast

from google.protobuf.message import Message

from tubeclient.errors import DeadlineExceeded, ProtocolError, RemoteError, TubeError
from tubeclient.flows.effects import Effect, Emit, Flow, Now, Receive, Send, Sleep, Ticket
from tubeclient.net.pool import ConnectionPool
from tubeclient.wire.envelope import decode_response, encode_request, parse_message
from tubeclient.wire.methods import Method

__all__ = ["FlowRunner"]

T = TypeVar("T")


class _Pending(NamedTuple):
    address: str
    method: Method
    future: Future[bytes]
    timeout_ms: int
    deadline: float  # of time.monotonic(), seconds


class FlowRunner:
    """Runs flows on the calling thread. `wake` cuts the sleep of the flow that is running short."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._wake = threading.Event()

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end and return its result; values it emits are dropped."""
        steps = self.iterate(flow)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result

    def iterate(self, flow: Flow[T]) -> Generator[Any, None, T]:
        """Run a flow as its emitted values are asked for; closing the iterator closes the flow."""
        result: Any = None
        failure: TubeError | None = None
        try:
            while True:
                try:
                    effect = flow.send(result) if failure is None else flow.throw(failure)
                except StopIteration as stop:
                    value: T = stop.value
                    return value
                result, failure = None, None
                if isinstance(effect, Emit):
                    yield effect.value
                    continue
                try:
                    result = self._carry_out(effect)
                except TubeError as error:
                    failure = error
        finally:
            flow.close()

    def wake(self) -> None:
        """Cut the present sleep short, or the next one."""
        self._wake.set()

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Send):
            return self._send(effect)
        if isinstance(effect, Receive):
            return self._receive(effect.ticket)
        if isinstance(effect, Sleep):
            woken = self._wake.wait(max(0.0, effect.delay_ms / 1000))
            self._wake.clear()
            return woken
        if isinstance(effect, Now):
            return time.monotonic() * 1000
        raise TypeError(f"a flow asked for {effect!r}")

    def _send(self, effect: Send) -> Ticket:
        spec = effect.method.spec
        timeout_ms = round(self._pool.settings.rpc_timeout_ms * effect.time_share)
        stream = encode_request(spec.service, spec.method_id, effect.request.SerializeToString(), timeout_ms)
        future = self._pool.get(effect.address).submit(stream)
        return Ticket(_Pending(effect.address, effect.method, future, timeout_ms, time.monotonic() + timeout_ms / 1000))

    def _receive(self, ticket: Ticket) -> Message:
        pending = cast(_Pending, ticket)
        spec = pending.method.spec
        try:
            stream = pending.future.result(max(0.0, pending.deadline - time.monotonic()))
        except TimeoutError as error:
            if isinstance(error, TubeError):
                raise
            pending.future.cancel()
            raise DeadlineExceeded(
                f"{pending.address} did not answer {pending.method.name} within {pending.timeout_ms} ms",
                address=pending.address,
            ) from None
        try:
            return parse_message(spec.response, decode_response(stream, spec.method_id))
        except RemoteError as error:
            raise type(error)(error.exception_name, error.text, address=pending.address) from None
        except ProtocolError as error:
            raise ProtocolError(f"{pending.address} answered {pending.method.name} with {error}") from error
