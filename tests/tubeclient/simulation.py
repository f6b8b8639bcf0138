"""Runs flows and server state machines in one process with a simulated clock: no sockets, no threads, no waiting.

A run depends only on its seed: how long answers take, which requests or answers get lost, when connections break, and
which requests reach their server only after that.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

from google.protobuf.message import Message

from embedded_tubemq.common.catalogue import NOBODY, Peer
from embedded_tubemq.common.refusal import StandbyRefusal
from tubeclient.errors import ConnectionLost, DeadlineExceeded, StandbyMaster, TubeError
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
    WallClock,
)
from tubeclient.wire.envelope import Part
from tubeclient.wire.methods import Method

RPC_TIMEOUT_MS = 10_000
LATEST_MS = 20_000
VIRTUAL_LIMIT_MS = 3_600_000


class Server(Protocol):
    """A master or broker of embedded_tubemq."""

    def handle(self, method: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message: ...

    def tick(self, now_ms: int) -> None: ...


@dataclass(frozen=True)
class Weather:
    """How bad the network is: chances of a request, an answer or a connection getting lost at a call."""

    lose_request: float = 0.0
    lose_answer: float = 0.0
    break_connection: float = 0.0
    come_late: float = 0.0
    """The connection breaks at this call and at those written behind it, and the server gets them nonetheless, up to
    20 s later: mostly within a second."""
    latency_ms: float = 1.0


@dataclass
class _Answer:
    ready_at: float
    message: Message | None
    error: TubeError | None = None


@dataclass
class Actor:
    """A running flow: what it emitted so far, and how it ended."""

    flow: Flow[Any]
    emitted: list[Any] = field(default_factory=list)
    result: Any = None
    error: BaseException | None = None
    done: bool = False
    on_event: Callable[[Any], None] | None = None
    sleep: object = None
    """Stands for the sleep it is in now, so that only the first of timer and signal ends it."""
    stopped: bool = False
    missed: Callable[[], None] | None = None
    """What it would have gone on with, were it not stopped."""


class Simulation:
    """Servers by address, and the flows that talk to them."""

    def __init__(self, servers: Mapping[str, Server], seed: int, weather: Weather | None = None) -> None:
        self.now_ms = 1_000_000.0
        self.random = random.Random(seed)
        self.weather = weather or Weather()
        self._servers = servers
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._next_tick = self.now_ms
        self.calls: list[Method] = []
        """What was asked of the servers, in order."""
        self._to_lose: dict[Method, list[bool | None]] = {}
        self._to_delay: dict[Method, list[float | None]] = {}
        self._to_hold_up: dict[Method, list[float]] = {}
        self._sleepers: dict[str, list[tuple[Actor, object]]] = {}
        self._connections: dict[str, int] = {}

    def start(self, flow: Flow[Any], *, after_ms: float = 0.0, on_event: Callable[[Any], None] | None = None) -> Actor:
        """Begin a flow; it runs when `run` is called. `on_event` is called with what it emits."""
        actor = Actor(flow, on_event=on_event)
        self._at(self.now_ms + after_ms, lambda: self._resume(actor, None, None))
        return actor

    def at(self, after_ms: float, action: Callable[[], None]) -> None:
        """Do something in the midst of it all."""
        self._at(self.now_ms + after_ms, action)

    def lose(self, method: Method, *, answer: bool) -> None:
        """Lose the next call of `method`: the request, or (`answer`) only the answer to it."""
        self._to_lose.setdefault(method, []).append(answer)

    def let_pass(self, method: Method) -> None:
        """Lose nothing of the next call of `method`, but perhaps of the one behind it."""
        self._to_lose.setdefault(method, []).append(None)

    def let_come_late(self, method: Method, delay_ms: float, *, nth: int = 1) -> None:
        """At the `nth` next call of `method` its connection breaks; the server carries it out, so much later."""
        queue = self._to_delay.setdefault(method, [])
        queue.extend([None] * (nth - 1 - len(queue)))
        queue.append(delay_ms)

    def hold_up(self, method: Method, delay_ms: float) -> None:
        """Let so long pass before the next call of `method` leaves its client, as where a thread is not scheduled."""
        self._to_hold_up.setdefault(method, []).append(delay_ms)

    def disconnect(self, address: str) -> None:
        """End the connection to a server; the next call makes another."""
        self._connections.pop(address, None)

    def stop(self, actor: Actor) -> None:
        """Let a flow stand still, as the threads of a process do that SIGSTOP stopped."""
        actor.stopped = True

    def go_on(self, actor: Actor) -> None:
        """Let it continue; timers that ran out meanwhile have run out."""
        actor.stopped = False
        if actor.missed is not None:
            self._at(self.now_ms, actor.missed)
            actor.missed = None

    def run(self, for_ms: float = VIRTUAL_LIMIT_MS) -> None:
        """Let time pass until nothing is left to do, or so long."""
        end = self.now_ms + for_ms
        while self._agenda and self._agenda[0][0] <= end:
            moment, _, action = heapq.heappop(self._agenda)
            self.now_ms = max(self.now_ms, moment)
            while self._next_tick <= self.now_ms:
                for server in self._servers.values():
                    server.tick(int(self._next_tick))
                self._next_tick += 1_000
            action()
        if self._agenda:
            self.now_ms = end

    def finish(self, flow: Flow[Any], on_event: Callable[[Any], None] | None = None) -> Any:
        """Run one flow to its end and return its result, or raise its error."""
        actor = self.start(flow, on_event=on_event)
        end = self.now_ms + VIRTUAL_LIMIT_MS
        while not actor.done and self._agenda and self.now_ms < end:
            self.run(0 if self._agenda[0][0] <= self.now_ms else self._agenda[0][0] - self.now_ms)
        assert actor.done, "the flow did not end within an hour of its own time"
        if actor.error is not None:
            raise actor.error
        return actor.result

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (moment, next(self._order), action))

    def _resume(self, actor: Actor, value: Any, error: TubeError | None) -> None:
        """Advance a flow until it has to wait for something."""
        if actor.stopped:
            actor.missed = partial(self._resume, actor, value, error)
            return
        while True:
            try:
                effect: Effect = actor.flow.send(value) if error is None else actor.flow.throw(error)
            except StopIteration as stop:
                actor.result, actor.done = stop.value, True
                return
            except Exception as failure:
                actor.error, actor.done = failure, True
                return
            value, error = None, None
            if isinstance(effect, Emit):
                actor.emitted.append(effect.value)
                if actor.on_event is not None:
                    actor.on_event(effect.value)
            elif isinstance(effect, Now | WallClock):
                value = self.now_ms
            elif isinstance(effect, Done):
                value = self.now_ms >= cast(_Answer, effect.ticket).ready_at
            elif isinstance(effect, ConnectionTo):
                value = self._connections.get(effect.address)
            elif isinstance(effect, Notify):
                self._notify(effect.signal)
            elif isinstance(effect, Sleep):
                actor.sleep = sleep = object()
                self._sleepers.setdefault(effect.signal, []).append((actor, sleep))
                self._at(self.now_ms + max(effect.delay_ms, 0), partial(self._awake, actor, sleep, False))
                return
            elif isinstance(effect, Send | SendAll):
                delay_ms = self._delay_ms(effect)
                if delay_ms is not None:
                    self._at(self.now_ms + delay_ms, partial(self._send_late, actor, effect))
                    return
                try:
                    value = self._send(effect)
                except TubeError as failure:
                    error = failure
            else:
                assert isinstance(effect, Receive)
                answer = cast(_Answer, effect.ticket)
                wake = partial(self._resume, actor, answer.message, answer.error)
                self._at(max(answer.ready_at, self.now_ms), wake)
                return

    def _delay_ms(self, effect: Send | SendAll) -> float | None:
        for send in effect.sends if isinstance(effect, SendAll) else (effect,):
            if delays := self._to_hold_up.get(send.method):
                return delays.pop(0)
        return None

    def _send_late(self, actor: Actor, effect: Send | SendAll) -> None:
        try:
            self._resume(actor, self._send(effect), None)
        except TubeError as failure:
            self._resume(actor, None, failure)

    def _awake(self, actor: Actor, sleep: object, woken: bool) -> None:
        if actor.sleep is sleep:
            actor.sleep = None
            self._resume(actor, woken, None)

    def _notify(self, signal: str) -> None:
        if signal:
            for actor, sleep in self._sleepers.pop(signal, ()):
                self._at(self.now_ms, partial(self._awake, actor, sleep, True))

    def _send(self, effect: Send | SendAll) -> Any:
        sends = effect.sends if isinstance(effect, SendAll) else (effect,)
        if sends[0].address not in self._servers or self.random.random() < self.weather.break_connection:
            self.disconnect(sends[0].address)
            raise ConnectionLost(f"{sends[0].address} is gone", address=sends[0].address)
        self._connections.setdefault(sends[0].address, next(self._order))
        self.calls += [send.method for send in sends]
        answers = self._answers(sends)
        for send, answer in zip(sends, answers, strict=True):
            self._at(answer.ready_at, partial(self._notify, send.signal))
        return answers if isinstance(effect, SendAll) else answers[0]

    def _answers(self, sends: tuple[Send, ...]) -> list[_Answer]:
        """The answers to what is written together; where one comes late, so do those behind it, in their order."""
        answers: list[_Answer] = []
        arrival = 0.0
        for send in sends:
            queue = self._to_delay.get(send.method)
            delay_ms = queue.pop(0) if queue else None
            if delay_ms is None and self.weather.come_late and self.random.random() < self.weather.come_late:
                delay_ms = LATEST_MS ** self.random.random()
            if delay_ms is not None:
                arrival = max(arrival, self.now_ms + delay_ms)
            if arrival:
                breaks = queue is not None or self.random.random() < 0.5
                answers.append(self._come_late(send, arrival, self.weather.latency_ms if breaks else RPC_TIMEOUT_MS))
            else:
                answers.append(self._answer(send))
        return answers

    def _come_late(self, send: Send, arrival: float, told_after_ms: float) -> _Answer:
        """Its client is told before that, or after a time-out."""
        self.disconnect(send.address)
        request = type(send.request).FromString(send.request.SerializeToString())
        self._at(arrival, partial(self._handle_late, send, request))
        return _Answer(self.now_ms + told_after_ms, None, ConnectionLost("it broke", address=send.address))

    def _handle_late(self, send: Send, request: Message) -> None:
        with contextlib.suppress(StandbyRefusal):
            self._servers[send.address].handle(send.method, request, int(self.now_ms))

    def _no_answer(self, address: str) -> _Answer:
        """In time; then its client ends the connection."""
        silent = self._connections.get(address)

        def give_up() -> None:
            if self._connections.get(address) == silent:
                self.disconnect(address)

        self._at(self.now_ms + RPC_TIMEOUT_MS, give_up)
        return _Answer(self.now_ms + RPC_TIMEOUT_MS, None, DeadlineExceeded("no answer", address=address))

    def _answer(self, effect: Send) -> _Answer:
        draw = self.random.random
        lost = self._to_lose.get(effect.method)
        lost_answer = lost.pop(0) if lost else None
        if lost_answer is False or draw() < self.weather.lose_request:
            return self._no_answer(effect.address)
        # Through the bytes, so that what could not be sent is not sent here either.
        request = type(effect.request).FromString(effect.request.SerializeToString())
        arrival = self.now_ms + self.weather.latency_ms * (0.5 + draw())
        try:
            response = self._servers[effect.address].handle(effect.method, request, int(self.now_ms))
        except StandbyRefusal as refusal:
            return _Answer(arrival, None, StandbyMaster("corerpc.exception.StandbyException", str(refusal)))
        if lost_answer or draw() < self.weather.lose_answer:
            return self._no_answer(effect.address)
        if effect.parse is not None:
            data = response.SerializeToString()
            response = effect.parse(Part(data, 0, len(data)))
        return _Answer(arrival, response)
