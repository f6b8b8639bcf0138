"""The effects that a flow may ask for, and small flows that others use.

Flows that share state are run one step at a time. A step ends when a flow sends, receives, sleeps or emits. The other
effects are answered at once, and no other flow runs in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NewType, TypeAlias, TypeVar

from google.protobuf.message import Message

from tubeclient.errors import ProtocolError, status_error
from tubeclient.keys import INDEX_ENTRY_BYTES, is_index_offset
from tubeclient.wire.envelope import Part
from tubeclient.wire.methods import Method

Ticket = NewType("Ticket", object)
"""Stands for a pending answer."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request and go on. The result is a `Ticket`. Requests to one address are served in the order sent."""

    address: str
    method: Method
    request: Message
    time_share: float = 1.0
    """The part of a call's time limit for the answer."""
    signal: str = ""
    """Wakes flows that sleep on this signal when the answer arrives or fails."""
    parse: Callable[[Part], Any] | None = None
    """Gives the answer, if it is not the message in the method's `spec`. ProtocolError: it cannot be parsed."""


@dataclass(frozen=True, slots=True)
class SendAll:
    """Send requests to one address with one write, in order. The result is their tickets; if the write fails, none was
    sent."""

    sends: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the answer to a ticket. The result is the response message."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Done:
    """The result is whether `Receive` returns at once: the answer is there, or its time is over."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait so many milliseconds. The result is True if the wait was cut short. With a `signal`, a `Notify` of it cuts
    it short, also one that comes between this step and the wait."""

    delay_ms: float
    signal: str = ""


@dataclass(frozen=True, slots=True)
class Notify:
    """Wake all flows that sleep on this signal."""

    signal: str


@dataclass(frozen=True, slots=True)
class Now:
    """The result is a monotonic clock in milliseconds."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The result is the time of day in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class ConnectionTo:
    """The result is the number of the live connection to an address, None if there is none. A server that stops ends
    its connections, so the same connection means the same run of the server."""

    address: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Pass a value to the caller of the flow. The flow continues when the caller asks for more."""

    value: Any


Effect: TypeAlias = Send | SendAll | Receive | Done | Sleep | Notify | Now | WallClock | ConnectionTo | Emit

T = TypeVar("T")

Flow: TypeAlias = Generator[Effect, Any, T]


def call(address: str, method: Method, request: Message) -> Flow[Any]:
    """Send a request and wait for its answer."""
    ticket = yield Send(address, method, request)
    response = yield Receive(ticket)
    return response


def checked(response: Any, context: str, *, address: str = "", partition: str = "") -> Any:
    """Return a response whose code is 200. Any other code raises its StatusError; `context` says who wanted what.
    ProtocolError for an offset that no index has: callers search by offsets and need each answer to bring them
    further."""
    if response.errCode != 200:
        raise status_error(response.errCode, response.errMsg, context=context, address=address, partition=partition)
    for name in ("currOffset", "maxOffset"):
        offset = getattr(response, name, 0)
        if not is_index_offset(offset):
            raise ProtocolError(
                f"{context}: {address or 'the broker'} answered with {name} {offset}; offsets are 0 or positive "
                f"multiples of {INDEX_ENTRY_BYTES}. Either this is not a TubeMQ broker, or its files are damaged"
            )
    return response


def backoff_ms(attempt: int, fraction: float, *, first_ms: float = 100, limit_ms: float = 3_000) -> float:
    """The wait before retry `attempt`, from 0. It doubles up to `limit_ms`; `fraction` (random) takes up to half of it
    off."""
    ceiling: float = min(limit_ms, first_ms * 2 ** min(attempt, 30))
    return ceiling * (1 - fraction / 2)
