"""Messages in flight: sent, sent again to another partition after a fault, acknowledged or given up in time."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from time import monotonic

from tubeclient.counts import Sample, SendCounts
from tubeclient.errors import ClientClosed, DeadlineExceeded, NotAvailable, TransportError, TubeError
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.produce import Routes
from tubeclient.keys import PartitionKey
from tubeclient.metrics import enter
from tubeclient.net.connection import Connection
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.sending import Sending, result_of
from tubeclient.net.waiting import Alarm, Bell, OneThread
from tubeclient.wire.framing import Frame

_JOIN_SECONDS = 5.0
_WATCH_SECONDS = 0.5
_MESSAGES_PER_WRITE = 200


def _fault(error: Exception, address: str) -> TubeError:
    """`error` as a TubeError. Any other error counts as temporary: the system may be out of threads or memory."""
    if isinstance(error, TubeError):
        return error
    fault = TransportError(f"sending to {address} failed: {error!r}", address=address)
    fault.__cause__ = error
    return fault


@dataclass(slots=True, eq=False)
class _Parcel:
    """One attempt: a message, its partition, its request, and where its answer goes."""

    outbox: Outbox
    sending: Sending
    key: PartitionKey
    stream: bytes
    over: bool = False
    """The first of answer, failure and late sets it, under the outbox's lock; the others come to nothing."""
    connection: Connection | None = None
    """Over which it was written, or is being written. None: it waits in the queue."""
    serial: int | None = None
    """The request's number on that connection, once it is written."""

    def arrived(self, answer: Frame) -> None:
        self.outbox._answered(self, answer)

    def failed(self, error: TubeError) -> None:
        self.outbox._undelivered(self, error)


class Outbox:
    """Delivers messages over `routes`. `encode` makes the request's stream for a message and its partition.

    Its thread chooses the partitions, and a thread per broker sends. Callers only hand messages over, in one step that
    cannot be interrupted. Hold `lock` to change the routes. The messages' futures are settled without the lock.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        routes: Routes,
        encode: Callable[[Sending, PartitionKey], bytes],
        max_in_flight: int,
    ) -> None:
        self.lock = threading.Lock()  # guards the routes and everything below
        self._room = Bell()
        self._work = Alarm()
        self._pool = pool
        self._routes = routes
        self._encode = encode
        self._max_in_flight = max_in_flight
        self._answer_seconds = pool.settings.rpc_timeout_ms / 1000
        self._handed_over: deque[Sending] = deque()  # to the thread, which has not seen them yet
        self._on_the_way: set[Sending] = set()
        self._awaited: dict[_Parcel, float] = {}  # when each attempt is late: its answer, or already its write
        self._first_due = 0.0  # none is due earlier
        self._retries: list[tuple[float, int, Sending]] = []  # a heap, by the time of the next attempt
        self._retry_numbers = itertools.count()
        self._queues: dict[str, tuple[SimpleQueue[list[_Parcel]], OneThread]] = {}  # by address; for the thread only
        self._closing = False
        self._closed = False
        self._thread = OneThread(self._deliver, "tubeclient-delivery")
        self._counts = SendCounts()
        enter(self, self._counts, Outbox._now)

    def submit(self, sendings: Sequence[Sending]) -> None:
        """Send messages with one deadline, in order.

        Waits while too many messages are in flight. A message that is still waiting at its deadline fails with
        DeadlineExceeded.
        """
        self._thread.ensure()
        position = 0
        while position < len(sendings):
            with self.lock:
                closing = self._closing
                entering = [] if closing else sendings[position : position + max(0, self._places())]
                self._handed_over.extend(entering)
            if entering:
                self._work.set()
                position += len(entering)
            elif closing or sendings[0].deadline <= monotonic():
                break
            else:
                self._room.wait_for(self.lock, self._has_room, sendings[0].deadline - monotonic())
        for sending in sendings[position:]:
            error = self._no_room(sending)
            with self.lock:
                self._counts.given_up(sending.topic, error)
            sending.result.set_exception(error)

    def flush(self, timeout: float) -> bool:
        """Wait until all messages now in flight are settled; False if that takes more than `timeout` s."""
        with self.lock:
            waited_for = {*self._handed_over, *self._on_the_way}
        return self._room.wait_for(
            self.lock,
            lambda: waited_for.isdisjoint(self._handed_over) and waited_for.isdisjoint(self._on_the_way),
            timeout,
        )

    def close(self, timeout: float) -> None:
        """Take no more messages, wait up to `timeout` s for those in flight, give up the rest.

        An interrupted caller may call it again. `join` waits for the threads.
        """
        with self.lock:
            self._closing = True
            self._room.ring()
        self._room.wait_for(self.lock, lambda: not self._handed_over and not self._on_the_way, timeout)
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

    @property
    def unsent(self) -> dict[str, int]:
        """How many messages of each topic were given up."""
        return self._counts.unsent

    def _now(self) -> Iterator[Sample]:
        return SendCounts.now(len(self._on_the_way) + len(self._handed_over))

    def _places(self) -> int:
        """How many more messages may be in flight; call with the lock held."""
        return self._max_in_flight - len(self._on_the_way) - len(self._handed_over)

    def _has_room(self) -> bool:
        return self._closing or self._places() > 0

    def _no_room(self, sending: Sending) -> TubeError:
        if self._closing:
            return ClientClosed(f"the producer was closed before a message to topic {sending.topic} was sent")
        return DeadlineExceeded(
            f"a message to topic {sending.topic} could not be sent in time: {self._max_in_flight} are in flight. "
            "Allow more time, or a larger max_in_flight"
        )

    def _attempt(self, sendings: Sequence[Sending]) -> None:
        """Queue each message for the broker of its topic's next partition."""
        by_broker: dict[str, list[_Parcel]] = {}
        for sending, destination in zip(sendings, self._destinations(sendings), strict=True):
            sending.attempts += 1
            try:
                if isinstance(destination, TubeError):
                    raise destination
                key, address = destination
                stream = self._encode(sending, key)
            except TubeError as error:
                sending.tried = None
                self._failed(sending, error)
                continue
            except Exception as error:  # a message that cannot be encoded must not block the others
                if self._leaves(sending, error):
                    sending.result.set_exception(error)
                continue
            sending.tried = key
            by_broker.setdefault(address, []).append(_Parcel(self, sending, key, stream))
        for address, parcels in by_broker.items():
            if address not in self._queues:
                queue: SimpleQueue[list[_Parcel]] = SimpleQueue()
                thread = OneThread(partial(self._send_to, address, queue), f"tubeclient-send-{address}")
                self._queues[address] = queue, thread
            queue, thread = self._queues[address]
            with self.lock:  # from now on, as a broker that reads slowly may hold up its thread for any time
                for parcel in parcels:
                    self._await(parcel, parcel.sending.deadline)
            try:
                thread.ensure()
                queue.put(parcels)
            except RuntimeError as error:  # the system is out of threads for now
                for parcel in parcels:
                    self._undelivered(parcel, _fault(error, address))

    def _send_to(self, address: str, queue: SimpleQueue[list[_Parcel]]) -> None:
        """The thread of one broker. It connects and writes, so that a slow broker delays no messages to others."""
        while self._send_next(address, queue):
            pass

    def _send_next(self, address: str, queue: SimpleQueue[list[_Parcel]]) -> bool:
        parcels = list(queue.get())
        if self._closed:
            return False
        connection: Connection | None = None
        try:
            connection = self._pool.get(address)
            while len(parcels) < _MESSAGES_PER_WRITE and not queue.empty():
                parcels += queue.get()
            self._write(connection, parcels)
        except Exception as error:  # any error ends only these messages' attempt
            while connection is None and not queue.empty():
                parcels += queue.get()
            for parcel in parcels:
                self._undelivered(parcel, _fault(error, address))
        return not self._closed

    def _destinations(self, sendings: Sequence[Sending]) -> list[tuple[PartitionKey, str] | TubeError]:
        """The partition and the broker's address for each message's next attempt, or why there is none."""
        found: list[tuple[PartitionKey, str] | TubeError] = []
        with self.lock:
            now_ms = monotonic() * 1000
            for sending in sendings:
                try:
                    key, broker = self._routes.choose(sending.topic, now_ms, sending.tried)
                    found.append((key, broker.address))
                except TubeError as error:
                    found.append(error)
        return found

    def _write(self, connection: Connection, parcels: Sequence[_Parcel]) -> None:
        now = monotonic()
        with self.lock:
            parcels = [parcel for parcel in parcels if parcel.sending in self._on_the_way]  # not given up meanwhile
        timely = [parcel for parcel in parcels if parcel.sending.deadline > now]
        for parcel in parcels:
            if parcel.sending.deadline <= now:
                self._late(parcel)
        if not timely:
            return
        with self.lock:
            for parcel in timely:
                parcel.connection = connection
        serials = connection.post([parcel.stream for parcel in timely], timely)
        due = monotonic() + self._answer_seconds
        with self.lock:
            for parcel, serial in zip(timely, serials, strict=True):
                if parcel.over:
                    connection.forget(serial)
                else:
                    parcel.serial = serial
                    self._await(parcel, min(due, parcel.sending.deadline))

    def _await(self, parcel: _Parcel, due: float) -> None:
        """Count the attempt as late from `due` on; call with the lock held."""
        self._awaited[parcel] = due
        self._first_due = min(self._first_due, due)

    def _ends(self, parcel: _Parcel) -> bool:
        """End an attempt; False if it has ended before. Call with the lock held."""
        if parcel.over:
            return False
        parcel.over = True
        self._awaited.pop(parcel, None)  # it refers to the message, which must be freed
        return True

    def _undelivered(self, parcel: _Parcel, error: TubeError) -> None:
        with self.lock:
            if not self._ends(parcel):
                return
        self._failed(parcel.sending, error)

    def _late(self, parcel: _Parcel) -> None:
        sending = parcel.sending
        if parcel.connection is None:
            before = "" if sending.fault is None else f"; the attempt before: {sending.fault}"
            self._undelivered(parcel, DeadlineExceeded(f"it waited too long in the queue to {parcel.key}{before}"))
        elif parcel.serial is not None:
            parcel.connection.forget(parcel.serial)
            self._undelivered(parcel, DeadlineExceeded(f"no answer in time to a message sent to {parcel.key}"))
        else:
            self._undelivered(parcel, DeadlineExceeded(f"it took too long to write it to {parcel.key}"))

    def _break_stuck(self, late: Sequence[_Parcel]) -> None:
        """End connections where nobody wants any more what is being written. It would hold up all that comes after
        it."""
        stuck = {parcel.connection for parcel in late if parcel.serial is None}
        with self.lock:
            stuck -= {parcel.connection for parcel in self._awaited if parcel.serial is None}
        for connection in stuck:
            if connection is not None:
                connection.break_off("what was written to it took too long")

    def _answered(self, parcel: _Parcel, answer: Frame) -> None:
        sending, key = parcel.sending, parcel.key
        try:
            result = result_of(answer, key)
        except TubeError as error:
            self._undelivered(parcel, error)
            return
        except Exception as error:  # otherwise nobody would see the error
            self._undelivered(parcel, _fault(error, str(key)))
            return
        with self.lock:
            if not self._ends(parcel):
                return
            self._routes.succeeded(key)
            if not self._leaves_now(sending):
                return
        sending.result.set_result(result)

    def _failed(self, sending: Sending, error: TubeError) -> None:
        sending.fault = error
        again = error.retriable or isinstance(error, NotAvailable)
        with self.lock:
            now = monotonic()
            if sending.tried is not None:
                self._routes.failed(sending.tried, error, now * 1000)
            comes_again = again and now < sending.deadline and not self._closed
            self._counts.failed(sending.topic, error, again=comes_again)
            if comes_again:
                pause = backoff_ms(sending.attempts - 1, random.random()) / 1000
                at = min(now + pause, sending.deadline)
                heapq.heappush(self._retries, (at, next(self._retry_numbers), sending))
                self._work.set()
                return
        if again:
            self._give_up(sending)
        elif self._leaves(sending, error):
            sending.result.set_exception(error)

    def _give_up(self, sending: Sending) -> None:
        late = DeadlineExceeded(
            f"gave up sending to topic {sending.topic} after {sending.attempts} attempts: {sending.fault}"
        )
        late.__cause__ = sending.fault
        if self._leaves(sending, late):
            sending.result.set_exception(late)

    def _leaves(self, sending: Sending, error: Exception | None = None) -> bool:
        """Free the message's place, and count it: acknowledged, or failed with `error`. False if it was settled
        already."""
        with self.lock:
            return self._leaves_now(sending, error)

    def _leaves_now(self, sending: Sending, error: Exception | None = None) -> bool:
        """As `_leaves`, with the lock held."""
        if sending not in self._on_the_way:
            return False
        self._on_the_way.remove(sending)
        if error is None:
            self._counts.acknowledged(sending.topic, len(sending.payload), monotonic() - sending.submitted)
        else:
            self._counts.given_up(sending.topic, error)
        self._room.ring()
        return True

    def _deliver(self) -> None:
        """First attempts, retries, and late answers, until closed."""
        while True:
            with self.lock:
                if self._closed:
                    break
                now = monotonic()
                first = self._take_handed_over()
                due = self._take_due(now)
                late = self._take_late(now)
                next_attempt = self._retries[0][0] if self._retries else now + _WATCH_SECONDS
            if not first and not due and not late:
                self._work.wait(min(next_attempt - now, _WATCH_SECONDS))
                continue
            for parcel in late:
                self._late(parcel)
            if late:
                self._break_stuck(late)
            for sending in due:
                if sending.deadline <= now:
                    self._give_up(sending)
            self._attempt([*(sending for sending in due if sending.deadline > now), *first])
        self._give_up_all()
        for queue, _ in self._queues.values():
            queue.put([])

    def _give_up_all(self) -> None:
        with self.lock:
            left = [*self._on_the_way, *self._handed_over]
            self._on_the_way.clear()
            self._handed_over.clear()
        for sending in left:
            error = ClientClosed(f"the producer was closed before a message to topic {sending.topic} was answered")
            with self.lock:
                self._counts.given_up(sending.topic, error)
            sending.result.set_exception(error)

    def _take_handed_over(self) -> list[Sending]:
        count = min(len(self._handed_over), _MESSAGES_PER_WRITE)
        taken = [self._handed_over.popleft() for _ in range(count)]
        self._on_the_way.update(taken)
        return taken

    def _take_due(self, now: float) -> list[Sending]:
        due = []
        while self._retries and self._retries[0][0] <= now:
            due.append(heapq.heappop(self._retries)[2])
        return due

    def _take_late(self, now: float) -> list[_Parcel]:
        if now < self._first_due:
            return []
        late = [parcel for parcel, due in self._awaited.items() if due <= now]
        self._first_due = min((due for due in self._awaited.values() if due > now), default=now + self._answer_seconds)
        return late
