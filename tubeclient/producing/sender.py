"""Messages in flight: sent, sent again to another partition after a fault, acknowledged or given up in time."""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures._base import RUNNING
from functools import partial
from math import inf
from queue import SimpleQueue
from time import monotonic
from traceback import clear_frames
from typing import TypeAlias

from tubeclient.counts import Sample, count_acknowledged, count_failed, count_given_up, in_flight
from tubeclient.errors import ClientClosed, DeadlineExceeded, NotAvailable, TransportError, TubeError
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.produce import Routes
from tubeclient.keys import BrokerInfo, PartitionKey
from tubeclient.metrics import show
from tubeclient.net.connection import Connection
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.waiting import Alarm, Bell, OneThread, Outcome, settle
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.wire.sends import Sendable, SendResult, take_sent

_JOIN_SECONDS = 5.0
_WATCH_SECONDS = 0.5
_ROOM_SECONDS = 0.005
_MESSAGES_PER_WRITE = 200


class InFlight(Outcome[SendResult]):
    """A message in flight, and the future of its answer. Between two attempts it `rests`."""

    rests = False
    fault: TubeError | None = None
    """Of the last attempt."""

    def __init__(self, message: OutgoingMessage, deadline: float, submitted: float) -> None:
        """Times are by monotonic(), in seconds."""
        super().__init__()
        self._state = RUNNING  # a submitted message cannot be cancelled
        self.message: OutgoingMessage = message
        self.deadline = deadline
        self.submitted = submitted
        self.attempts = 0
        self.number = 0
        """Of the present attempt; another one once it is over."""
        self.due = inf
        """When the next attempt comes, or the present one is late."""
        self.tried: PartitionKey | None = None
        """By the last attempt, as all below."""
        self.connection: Connection | None = None
        """Over which it was written, or is being written. None: it waits in its broker's queue."""
        self.serial: int | None = None
        """The request's number on that connection, once it is written."""


Attempt: TypeAlias = tuple[InFlight, int, PartitionKey]
"""A message, and number and partition of an attempt; what comes of an attempt that is over comes to nothing."""

_SETTLED = OutgoingMessage("", b"", 0, "", "")
"""Instead of a settled message, whose future may be kept."""


class Sender:
    """Delivers messages over `routes`. `encode` makes the frames for messages, their partitions and serial numbers.

    Its thread chooses the partitions and watches the time, and a thread per broker sends. Callers only hand messages
    over, in one step that cannot be interrupted. Hold `lock` to change the routes. Futures are settled without it."""

    def __init__(
        self,
        pool: ConnectionPool,
        routes: Routes,
        encode: Callable[[list[Sendable], list[PartitionKey], list[int]], bytes],
        max_in_flight: int,
    ) -> None:
        self.lock = threading.Lock()  # guards the routes and everything below
        self.given_up: Counter[str] = Counter()  # messages by topic
        self._room = Bell()
        self._work = Alarm()
        self._pool = pool
        self._routes = routes
        self._encode = encode
        self._max_in_flight = max_in_flight
        self._answer_seconds = pool.settings.rpc_timeout_ms / 1000
        self._new: deque[InFlight] = deque()  # which the thread has not seen yet
        self._on_the_way: set[InFlight] = set()
        self._ending: set[InFlight] = set()  # no longer on the way, but perhaps not settled yet
        self._first_due = inf  # none is due earlier
        self._queues: dict[str, tuple[SimpleQueue[list[Attempt]], OneThread]] = {}  # by address; for the thread only
        self._closing = False
        self._closed = False
        self._thread = OneThread(self._deliver, "tubeclient-delivery")
        show(self, Sender._now)

    def submit(self, messages: Sequence[InFlight]) -> None:
        """Send messages with one deadline, in order. Waits, till that, while too many are in flight."""
        self._thread.ensure()
        position = 0
        while position < len(messages):
            with self.lock:
                closing = self._closing
                entering = [] if closing else messages[position : position + max(0, self._places())]
                self._new.extend(entering)
            if entering:
                self._work.set()
                position += len(entering)
            elif closing or messages[0].deadline <= monotonic():
                break
            else:
                self._await_room(messages[0].deadline - monotonic())
        for flight in messages[position:]:  # they take no places, which an interrupt here would not give back
            topic = flight.message.topic
            if closing:
                error: TubeError = ClientClosed(f"the producer was closed before a message to topic {topic} was sent")
            else:
                error = DeadlineExceeded(
                    f"a message to topic {topic} could not be sent in time: {self._max_in_flight} are in flight. "
                    "Allow more time, or a larger max_in_flight"
                )
            with self.lock:
                self._count_given_up(flight, error)
            flight.message = _SETTLED
            flight.set_exception(error)

    def _await_room(self, seconds: float) -> None:
        """Wait until a quarter of the places is free, as to be woken for each takes longer than to send a message. Not
        for long: messages may be stuck in the others."""
        some = self._max_in_flight // 4 + 1
        until = min(seconds, _ROOM_SECONDS)
        self._room.wait_for(self.lock, lambda: self._closing or self._places() >= some, until)

    def flush(self, timeout: float) -> bool:
        """Wait until all messages now in flight are settled; False if that takes more than `timeout` s."""
        with self.lock:
            waited_for = {*self._new, *self._on_the_way, *self._ending}
        places = self._new, self._on_the_way, self._ending
        return self._room.wait_for(self.lock, lambda: all(map(waited_for.isdisjoint, places)), timeout)

    def close(self, timeout: float) -> None:
        """Take no more messages, wait up to `timeout` s for those in flight, give up the rest. May be called again."""
        with self.lock:
            self._closing = True
            self._room.ring()
        self._room.wait_for(self.lock, lambda: not self._new and not self._on_the_way, timeout)
        with self.lock:
            self._closed = True
        self._work.set()
        if self._thread.is_current:
            self._give_up_all()
        else:
            self._thread.join(_JOIN_SECONDS)

    def join(self) -> None:
        """After `close`, and the pool's: wait for the end of all threads, including those that still connect."""
        if not self._thread.is_current:
            until = monotonic() + _JOIN_SECONDS
            self._thread.join(_JOIN_SECONDS)
            for _, thread in list(self._queues.values()):
                thread.join(max(0.0, until - monotonic()))

    def _now(self) -> list[Sample]:
        return [in_flight(len(self._on_the_way) + len(self._new))]

    def _places(self) -> int:
        """How many more messages may be in flight; call with the lock held."""
        return self._max_in_flight - len(self._on_the_way) - len(self._new)

    # The delivery's thread

    def _deliver(self) -> None:
        """First attempts, further ones, and late answers, until closed."""
        try:
            while not self._closed:
                self._deliver_some()
        finally:  # also after an error that nobody thought of: no message waits for ever
            self._closing = self._closed = True
            self._give_up_all()
            for queue, _ in self._queues.values():
                queue.put([])

    def _deliver_some(self) -> None:
        with self.lock:
            now = monotonic()
            coming = [self._new.popleft() for _ in range(min(len(self._new), _MESSAGES_PER_WRITE))]
            self._on_the_way.update(coming)
            due: list[InFlight] = []
            if now >= self._first_due:
                due = [flight for flight in self._on_the_way if flight.due <= now]
                self._first_due = min((flight.due for flight in self._on_the_way if flight.due > now), default=inf)
            late = [(flight, flight.number) for flight in due if not flight.rests]
            over = [
                (flight, flight.number, _gave_up(flight)) for flight in due if flight.rests and flight.deadline <= now
            ]
            next_due = self._first_due
        if late:
            self._end_late(late)
        if over:
            self._end(over)
        again = [flight for flight in due if flight.rests and flight.deadline > now]
        if coming or again:
            self._attempt([*again, *coming])
        elif not due:
            self._work.wait(min(next_due - now, _WATCH_SECONDS))

    def _attempt(self, messages: Sequence[InFlight]) -> None:
        """Queue each message for the broker of its topic's next partition."""
        by_broker: dict[BrokerInfo, list[Attempt]] = {}
        nowhere: list[tuple[InFlight, int, TubeError]] = []
        with self.lock:
            now_ms = monotonic() * 1000
            for flight in messages:
                if flight not in self._on_the_way:  # a callback closed the producer
                    continue
                flight.attempts += 1
                if flight.rests:
                    flight.rests, flight.connection, flight.serial = False, None, None
                try:
                    flight.tried, broker = self._routes.choose(flight.message.topic, now_ms, flight.tried)
                except TubeError as error:
                    flight.tried = None
                    nowhere.append((flight, flight.number, error))
                else:  # its time runs from now on, as a broker that reads slowly may hold up its thread for any time
                    flight.due = flight.deadline
                    by_broker.setdefault(broker, []).append((flight, flight.number, flight.tried))
            self._first_due = min([self._first_due, *[flight.deadline for flight in messages]])
        for flight, number, why in nowhere:
            self._failed(flight, number, why)
        for address, attempts in [(broker.address, attempts) for broker, attempts in by_broker.items()]:
            if address not in self._queues:
                queue: SimpleQueue[list[Attempt]] = SimpleQueue()
                thread = OneThread(partial(self._send_to, address, queue), f"tubeclient-send-{address}")
                self._queues[address] = queue, thread
            queue, thread = self._queues[address]
            try:
                thread.ensure()
                queue.put(attempts)
            except RuntimeError as error:  # the system is out of threads for now
                for flight, number, _ in attempts:
                    self._failed(flight, number, _fault(error, address))

    def _end_late(self, late: Sequence[tuple[InFlight, int]]) -> None:
        """End attempts that are late, and connections that brought no answer meanwhile, or where nobody wants any more
        what is being written: it would hold up all that comes after it."""
        stuck: set[Connection | None] = set()
        silent: set[Connection] = set()
        for flight, number in late:
            if flight.connection is None:
                text = f"it waited too long in the queue to {flight.tried}"
            elif flight.serial is None:
                stuck.add(flight.connection)
                text = f"writing it to {flight.tried} took too long"
            else:
                flight.connection.forget(flight.serial)
                silent.add(flight.connection)
                text = f"no answer in time to a message sent to {flight.tried}"
            self._failed(flight, number, DeadlineExceeded(text))
        if stuck:
            with self.lock:
                stuck -= {
                    flight.connection for flight in self._on_the_way if not flight.rests and flight.serial is None
                }
        for connection in filter(None, stuck):
            connection.break_off("a write to it took too long")
        for connection in silent:
            connection.give_up_if_silent(self._answer_seconds)

    def _give_up_all(self) -> None:
        with self.lock:
            self._on_the_way.update(self._new)
            self._new.clear()
            left = [(flight, flight.number, flight.message.topic) for flight in self._on_the_way]
        self._end([(flight, number, _closed_before(topic)) for flight, number, topic in left])

    # A thread of one broker

    def _send_to(self, address: str, queue: SimpleQueue[list[Attempt]]) -> None:
        """It connects and writes, so that a slow broker delays no messages to others."""
        while not self._closed:
            self._send_next(address, queue)

    def _send_next(self, address: str, queue: SimpleQueue[list[Attempt]]) -> None:
        attempts = list(queue.get())
        if self._closed:
            return
        try:
            connection = self._pool.get(address)
            while len(attempts) < _MESSAGES_PER_WRITE and not queue.empty():
                attempts += queue.get()
            self._write(connection, attempts)
        except Exception as error:  # any error ends only these messages' attempt
            clear_frames(error.__traceback__)  # they have the payloads, and futures may be kept, with their errors
            while not queue.empty():
                attempts += queue.get()
            for flight, number, _ in attempts:
                self._failed(flight, number, _fault(error, address))

    def _write(self, connection: Connection, attempts: Sequence[Attempt]) -> None:
        now = monotonic()
        with self.lock:
            wanted = [each for each in attempts if each[0].number == each[1] and each[0].deadline > now]
            for flight, _, _ in wanted:
                flight.connection = connection
            messages: list[Sendable] = [flight.message for flight, _, _ in wanted]
        if not wanted:
            return
        keys = [key for _, _, key in wanted]
        serials = connection.post(wanted, partial(self._encode, messages, keys), self._answered)
        due = monotonic() + self._answer_seconds
        with self.lock:
            for (flight, number, _), serial in zip(wanted, serials, strict=True):
                if flight.number == number:
                    flight.serial = serial
                    flight.due = min(due, flight.deadline)
                else:
                    connection.forget(serial)
            self._first_due = min(self._first_due, due)

    # Any thread

    def _answered(self, attempts: list[Attempt], answers: list[bytes] | TubeError) -> None:
        results: Sequence[SendResult | Exception]
        try:
            if isinstance(answers, TubeError):
                results = [answers] * len(attempts)
            else:
                results = take_sent(answers, [key for _, _, key in attempts])
        except Exception as error:  # any other error too: otherwise nobody would see it
            results = [error] * len(attempts)
        both = list(zip(attempts, results, strict=True))
        self._end([(flight, number, result) for (flight, number, _), result in both if isinstance(result, SendResult)])
        for (flight, number, key), result in both:
            if not isinstance(result, SendResult):
                self._failed(flight, number, _fault(result, str(key)))

    def _failed(self, flight: InFlight, number: int, error: TubeError) -> None:
        with self.lock:
            if flight.number != number:
                return
            now = monotonic()
            before, flight.fault = flight.fault, error
            if flight.tried is not None:
                self._routes.failed(flight.tried, error, now * 1000)
            passes = error.retriable or isinstance(error, NotAvailable)
            again = passes and now < flight.deadline and not self._closed
            count_failed(flight.message.topic, error, again=again)
            if again:
                flight.number += 1
                flight.rests = True
                flight.due = min(now + backoff_ms(flight.attempts - 1, random.random()) / 1000, flight.deadline)
                self._first_due = min(self._first_due, flight.due)
        if again:
            self._work.set()
        else:
            if passes:  # and no time is left, or the producer was closed meanwhile
                error = (
                    _gave_up(flight, before) if now >= flight.deadline else _closed_before(flight.message.topic, error)
                )
            self._end([(flight, number, error)])

    def _end(self, outcomes: Sequence[tuple[InFlight, int, SendResult | TubeError]]) -> None:
        """Settle messages whose attempt of that number is not over."""
        stored: dict[str, list[InFlight]] = {}
        with self.lock:
            now = monotonic()
            ended = [(flight, result) for flight, number, result in outcomes if flight.number == number]
            messages = [flight for flight, _ in ended]
            self._on_the_way.difference_update(messages)
            self._ending.update(messages)  # until callbacks were called
            for flight, result in ended:
                flight.number += 1
                if isinstance(result, SendResult):
                    stored.setdefault(flight.message.topic, []).append(flight)
                else:
                    self._count_given_up(flight, result)
            for topic, of_topic in stored.items():
                payload_bytes = sum([len(flight.message.payload) for flight in of_topic])
                count_acknowledged(topic, payload_bytes, [now - flight.submitted for flight in of_topic])
            self._routes.succeeded(result.partition for _, result in ended if isinstance(result, SendResult))
            self._room.ring()
        for flight in messages:
            flight.message = _SETTLED
        settle(ended)
        with self.lock:
            self._ending.difference_update(messages)
            self._room.ring()

    def _count_given_up(self, flight: InFlight, error: TubeError) -> None:
        """Call with the lock held."""
        self.given_up[flight.message.topic] += 1
        count_given_up(flight.message.topic, error)


def _fault(error: Exception, where: str) -> TubeError:
    """`error` as a TubeError. Any other error counts as temporary: the system may be out of threads or memory."""
    if isinstance(error, TubeError):
        return error
    fault = TransportError(f"sending to {where} failed: {error!r}", address=where)
    fault.__cause__ = error
    return fault


def _closed_before(topic: str, fault: TubeError | None = None) -> ClientClosed:
    closed = ClientClosed(f"the producer was closed before a message to topic {topic} was answered")
    closed.__cause__ = fault
    return closed


def _gave_up(flight: InFlight, before: TubeError | None = None) -> DeadlineExceeded:
    """`before` is the fault of the attempt before the last one. It is what ails, if time ended before an answer."""
    what = f"{flight.fault}"
    if before is not None and isinstance(flight.fault, DeadlineExceeded):
        what = f"{before}; then {flight.fault}"
    late = DeadlineExceeded(f"gave up sending to topic {flight.message.topic} after {flight.attempts} attempts: {what}")
    late.__cause__ = flight.fault
    return late
