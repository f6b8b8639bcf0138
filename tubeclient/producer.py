"""Sending messages."""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tubeclient.access import masters_of
from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    DeadlineExceeded,
    NotAvailable,
    ServerBusy,
    TubeError,
)
from tubeclient.flows.effects import backoff_ms, checked
from tubeclient.flows.hold_group import HEARTBEAT_INTERVAL_MS
from tubeclient.flows.partition_choice import PartitionChoice
from tubeclient.flows.produce import ProducerSession
from tubeclient.identity import host_name, new_client_id
from tubeclient.keys import PartitionKey
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings
from tubeclient.wire.envelope import decode_response, encode_request, parse_message
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum, encode_attributes, encode_payload
from tubeclient.wire.proto import broker_pb2

__all__ = ["Producer", "SendResult"]

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 5.0
_PUBLISH_RETRY_SECONDS = 0.25
_WATCH_SECONDS = 0.5
_MESSAGES_PER_WRITE = 200
_SEND = Method.SEND_MESSAGE.spec


class SendResult(NamedTuple):
    """Where a message went. `offset` is the index offset the broker gave it, or None where it named none."""

    partition: PartitionKey
    offset: int | None
    message_id: int


@dataclass(slots=True)
class _Sending:
    """A message on its way."""

    topic: str
    payload: bytes
    flag: int
    tag: str
    time: str
    result: Future[SendResult]
    deadline: float  # of _monotonic(), seconds
    attempts: int = 0


class _Answer(Future[SendResult]):
    """What `submit` returns. A forked child would wait for it in vain, so there it raises ClientClosed."""

    def __init__(self, maker: ProcessBound) -> None:
        super().__init__()
        self._maker = maker

    def result(self, timeout: float | None = None) -> SendResult:
        self._maker.check_process()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._maker.check_process()
        return super().exception(timeout)


class Producer(ProcessBound):
    """Sends messages to the writable partitions of its topics, in turn.

    At least once: a message whose answer got lost is sent again, within `retry_limit_ms` of the settings, to
    another partition. So the order within a partition is that of the submits only while nothing fails. At most
    `max_in_flight` messages are on their way; `submit` waits for a place. May be used by several threads. Close it,
    or use it as a context manager: closing waits for what is on its way.

    >>> with Producer(ClientSettings(("127.0.0.1:8715",))) as producer:  # doctest: +SKIP
    ...     producer.publish(["clicks"])
    ...     producer.send("clicks", b"hello", tag="web").offset
    """

    def __init__(self, settings: ClientSettings, *, max_in_flight: int = 1_000) -> None:
        super().__init__()
        if max_in_flight < 1:
            raise ConfigurationError(f"max_in_flight must be 1 or more, not {max_in_flight}")
        self._settings = settings
        self._client_id = new_client_id("producer", "Producer")
        masters = masters_of(settings)
        self._authority = masters.authority
        self._session = ProducerSession(masters, self._client_id, host_name())
        self._pool = ConnectionPool(settings)
        self._runner = FlowRunner(self._pool)
        self._max_in_flight = max_in_flight
        self._room = threading.Condition()  # over the next one
        self._in_flight = 0
        self._session_lock = threading.Lock()  # held while the master is asked
        self._lock = threading.Condition()  # over all that follows
        self._awaited: deque[tuple[float, Future[bytes]]] = deque()  # answers by the time they are due
        self._choices: dict[str, PartitionChoice] = {}
        self._retries: list[tuple[float, int, _Sending]] = []  # a heap by the time of the next attempt
        self._retry_numbers = itertools.count()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._sent_from = _own_address()

    def publish(self, topics: Iterable[str], *, timeout_ms: int = 10_000) -> None:
        """Make `topics` known as ones to send to.

        A topic that cannot be written within `timeout_ms` is a NotAvailable.
        """
        self.check_process()
        wanted = sorted(set(topics))
        deadline = _monotonic() + timeout_ms / 1000
        with self._session_lock:
            self._check_open()
            if self._thread is None:
                self._runner.run(self._session.register())
                self._thread = threading.Thread(target=self._keep, name="tubeclient-producer", daemon=True)
                self._thread.start()
        with self._lock:
            for topic in wanted:
                self._choices.setdefault(topic, PartitionChoice(topic, random.randrange(1 << 16)))
        while True:
            self._refresh()
            with self._lock:
                missing = set(wanted) - {layout.topic for layout in self._session.layouts}
                if not missing:
                    return
                if _monotonic() >= deadline:
                    for topic in missing:
                        del self._choices[topic]
                    raise NotAvailable(
                        403, "no writable partition", context=f"publishing to {', '.join(sorted(missing))}"
                    )
                self._lock.wait(_PUBLISH_RETRY_SECONDS)

    def submit(
        self, topic: str, body: bytes, *, tag: str = "", time: str = "", attributes: Mapping[str, str] | None = None
    ) -> Future[SendResult]:
        """Send without waiting for the answer. `tag` is what consumers filter by, `time` is yyyyMMddHHmm.

        Raises ConfigurationError for a message the cluster would refuse: empty, over the topic's limit, or of a topic
        not published.
        """
        return self.submit_many(topic, [body], tag=tag, time=time, attributes=attributes)[0]

    def submit_many(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        time: str = "",
        attributes: Mapping[str, str] | None = None,
    ) -> list[Future[SendResult]]:
        """Send messages that differ in their bodies only, with few writes: several times faster than one by one.

        The futures are in the order of the bodies. Raises as `submit` does, before anything is sent.
        """
        self.check_process()
        tag = tag.strip()
        text = encode_attributes(attributes or {}, tag, time)
        payloads = [encode_payload(body, text) for body in bodies]
        self._check_messages(topic, bodies, [payload for payload, _ in payloads])
        deadline = _monotonic() + self._settings.retry_limit_ms / 1000
        sendings = [_Sending(topic, payload, flag, tag, time, _Answer(self), deadline) for payload, flag in payloads]
        position = 0
        while position < len(sendings):
            with self._room:
                self._room.wait_for(lambda: self._in_flight < self._max_in_flight)
                count = min(self._max_in_flight - self._in_flight, len(sendings) - position, _MESSAGES_PER_WRITE)
                self._in_flight += count
            batch = sendings[position : position + count]
            for sending in batch:
                sending.result.set_running_or_notify_cancel()  # from here on it cannot be cancelled
                sending.result.add_done_callback(self._leave)
            self._attempt(batch)
            position += count
        return [sending.result for sending in sendings]

    def send(
        self, topic: str, body: bytes, *, tag: str = "", time: str = "", attributes: Mapping[str, str] | None = None
    ) -> SendResult:
        """Send and wait for the answer; raises what ended the last attempt."""
        return self.submit(topic, body, tag=tag, time=time, attributes=attributes).result()

    def flush(self) -> None:
        """Wait until every message submitted so far has been answered or given up, which takes `retry_limit_ms` at
        most.
        """
        self.check_process()
        with self._room:
            self._room.wait_for(lambda: self._in_flight == 0)

    def close(self) -> None:
        """Wait for what is on its way, take leave of the master, end thread and connections."""
        if self.inherited:
            return
        with self._lock:
            if self._closed:
                return
        self.flush()
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            try:
                self._runner.run(self._session.close())
            except TubeError as error:
                _log.info("the master will forget this producer by itself: %s", error)
        self._pool.close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("this producer is closed; make a new one")

    def _check_messages(self, topic: str, bodies: Sequence[bytes], payloads: Sequence[bytes]) -> None:
        with self._lock:
            self._check_open()
            if topic not in self._choices:
                raise ConfigurationError(f"topic {topic} was not published; call publish([{topic!r}]) first")
            limit = self._session.max_message_bytes(topic)
        if not all(bodies):
            raise ConfigurationError(f"an empty message cannot be sent to topic {topic}: TubeMQ refuses it")
        longest = max(map(len, payloads), default=0)
        if longest > limit:
            raise ConfigurationError(
                f"a message of {longest} bytes, attributes included, is over the {limit} bytes that topic {topic} takes"
            )

    def _leave(self, _: object) -> None:
        with self._room:
            self._in_flight -= 1
            self._room.notify_all()

    def _attempt(self, sendings: Sequence[_Sending]) -> None:
        """Send each message to its topic's next partition, with one write for each broker."""
        by_broker: dict[str, list[tuple[_Sending, PartitionKey, bytes]]] = {}
        for sending in sendings:
            sending.attempts += 1
            try:
                with self._lock:
                    key = self._choices[sending.topic].choose(_monotonic() * 1000)
                    broker = self._session.brokers.get(key.broker_id)
                if broker is None:
                    raise ServerBusy(503, f"the master lists no broker {key.broker_id}", context=f"sending to {key}")
                stream = self._encode(sending, key)
            except TubeError as error:
                self._failed(sending, None, error)
                continue
            by_broker.setdefault(broker.address, []).append((sending, key, stream))
        for address, parts in by_broker.items():
            due = _monotonic() + self._settings.rpc_timeout_ms / 1000
            try:
                answers = self._pool.get(address).submit_many([stream for _, _, stream in parts])
            except TubeError as error:
                for sending, key, _ in parts:
                    self._failed(sending, key, error)
                continue
            for (sending, key, _), answer in zip(parts, answers, strict=True):
                answer.add_done_callback(partial(self._answered, sending, key))
            with self._lock:
                self._awaited.extend((due, answer) for answer in answers)

    def _encode(self, sending: _Sending, key: PartitionKey) -> bytes:
        request = broker_pb2.SendMessageRequestP2B(
            clientId=self._client_id,
            topicName=sending.topic,
            partitionId=key.partition_id,
            data=sending.payload,
            flag=sending.flag,
            checkSum=checksum(sending.payload),
            sentAddr=self._sent_from,
            msgType=sending.tag or None,
            msgTime=sending.time or None,
        )
        self._authority.to_broker(request)
        body = request.SerializeToString()
        return encode_request(_SEND.service, _SEND.method_id, body, self._settings.rpc_timeout_ms)

    def _answered(self, sending: _Sending, key: PartitionKey, answer: Future[bytes]) -> None:
        if answer.cancelled():
            limit_ms = self._settings.rpc_timeout_ms
            self._failed(sending, key, DeadlineExceeded(f"no answer within {limit_ms} ms to a message sent to {key}"))
            return
        try:
            response = parse_message(
                broker_pb2.SendMessageResponseB2P, decode_response(answer.result(0), _SEND.method_id)
            )
            checked(response, f"sending to {key}", partition=str(key))
        except TubeError as error:
            self._failed(sending, key, error)
            return
        with self._lock:
            self._choices[sending.topic].succeeded(key)
        offset = response.appendOffset if response.HasField("appendOffset") else None
        message_id = response.messageId if response.HasField("messageId") else int(response.errMsg)
        sending.result.set_result(SendResult(key, offset, message_id))

    def _failed(self, sending: _Sending, key: PartitionKey | None, error: TubeError) -> None:
        with self._lock:
            now = _monotonic()
            if key is not None:
                unavailable = isinstance(error, ServerBusy) and error.code == 503
                self._choices[sending.topic].failed(key, now * 1000, whole_broker=unavailable)
            if (error.retriable or isinstance(error, NotAvailable)) and now < sending.deadline and not self._closed:
                pause = backoff_ms(sending.attempts - 1, random.random()) / 1000
                heapq.heappush(self._retries, (now + pause, next(self._retry_numbers), sending))
                self._lock.notify_all()
                return
        if error.retriable and now >= sending.deadline:
            late = DeadlineExceeded(
                f"gave up sending to topic {sending.topic} after {sending.attempts} attempts: {error}"
            )
            late.__cause__ = error
            sending.result.set_exception(late)
        else:
            sending.result.set_exception(error)

    def _keep(self) -> None:
        """Heartbeats and second attempts, until closed."""
        next_beat = _monotonic() + HEARTBEAT_INTERVAL_MS / 1000
        while True:
            with self._lock:
                if self._closed:
                    return
                now = _monotonic()
                due = self._take_due(now)
                late = self._take_late(now)
                if not due and not late and now < next_beat:
                    self._lock.wait(
                        min([next_beat, now + _WATCH_SECONDS, *(entry[0] for entry in self._retries[:1])]) - now
                    )
                    continue
            for answer in late:
                answer.cancel()  # its callback sees to the message
            self._attempt(due)
            if now >= next_beat:
                next_beat = now + HEARTBEAT_INTERVAL_MS / 1000
                try:
                    self._refresh()
                except TubeError as error:
                    _log.warning("the master did not answer a producer's heartbeat: %s", error)

    def _take_due(self, now: float) -> list[_Sending]:
        due = []
        while self._retries and self._retries[0][0] <= now:
            due.append(heapq.heappop(self._retries)[2])
        return due

    def _take_late(self, now: float) -> list[Future[bytes]]:
        late = []
        while self._awaited and (self._awaited[0][1].done() or self._awaited[0][0] <= now):
            _, answer = self._awaited.popleft()
            if not answer.done():
                late.append(answer)
        return late

    def _refresh(self) -> None:
        """Ask the master where the topics can be written."""
        with self._session_lock:
            with self._lock:
                topics = list(self._choices)
            self._runner.run(self._session.refresh(topics))
            with self._lock:
                for choice in self._choices.values():
                    choice.update(self._session.layouts)


def _monotonic() -> float:
    return time.monotonic()


def _own_address() -> int:
    """This machine's IPv4 address as the signed 32-bit number the wire wants."""
    try:
        packed = socket.inet_aton(socket.gethostbyname(host_name()))
    except OSError:
        packed = socket.inet_aton("127.0.0.1")
    return int.from_bytes(packed, "big", signed=True)
