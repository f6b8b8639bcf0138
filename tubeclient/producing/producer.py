"""Sending messages."""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from time import monotonic

from tubeclient.access import masters_of
from tubeclient.admin import Admin
from tubeclient.arguments import checked_kind, given_ms
from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    DeadlineExceeded,
    PartitionUnavailable,
    ServerBusy,
    TopicNotDeployed,
    TubeError,
)
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.hold_group import HEARTBEAT_INTERVAL_MS
from tubeclient.flows.produce import ProducerSession, Routes
from tubeclient.identity import host_name, new_client_id, own_address
from tubeclient.names import topic_names
from tubeclient.net.forgotten import Watch
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.net.waiting import OneThread
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.producing.sender import InFlight, Sender
from tubeclient.settings import ClientSettings, checked_settings
from tubeclient.wire.sends import SendEncoder, SendResult

__all__ = ["Producer", "SendResult"]

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 5.0
_END_SECONDS = 10.0
"""How long the end of a program waits for messages of a producer that nobody closed."""
_BEAT_RETRY_MS = 1_000
_PUBLISH_RETRY_MS = 1_000
_FIRST_LOOKS_SECONDS = 1.0
"""How long to wait for a topic before asking the master whether it exists."""


class Producer(ProcessBound):
    """Sends messages to the writable partitions of its topics, in turn.

    Delivery is at least once: a message without an answer is sent again, within its time limit, to another partition.
    The order within a partition is the order of the submits only while nothing fails. A partition that fails more than
    three times in a row rests for 3 s, an unavailable broker for 50 s.

    `timeout_ms` of a message is the time for all attempts together, by default the settings' `retry_limit_ms`. A
    message that exceeds it fails with DeadlineExceeded, but may have arrived.

    The producer is thread-safe; forked children make their own. Close it, or use it as a context manager: closing waits
    for messages in flight.

        >>> with Producer(settings) as producer:
        ...     producer.publish(["clicks"])
        ...     producer.send("clicks", b"hello", tag="web").offset
        28

    Args:
        max_in_flight: How many messages may be in flight. Then `submit` waits.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(self, settings: ClientSettings, *, max_in_flight: int = 1_000) -> None:
        super().__init__()
        if isinstance(max_in_flight, bool) or not isinstance(max_in_flight, int) or max_in_flight < 1:
            raise ConfigurationError(f"max_in_flight must be a number of messages, 1 or more, not {max_in_flight!r}")
        self._settings = checked_settings(settings)
        self.client_id = new_client_id("producer", "Producer")
        """The client id at master and brokers."""
        masters = masters_of(self._settings)
        self._session = ProducerSession(masters, self.client_id, host_name())
        self._session_lock = threading.Lock()  # held while the master is asked
        self._registered = False
        self._pool = ConnectionPool(self._settings)
        self._runner = FlowRunner(self._pool)
        self._routes = Routes()
        encoder = SendEncoder(self.client_id, own_address(), settings.rpc_timeout_ms, masters.authority.to_broker)
        self._sender = Sender(self._pool, self._routes, encoder.frames, max_in_flight)
        self._heartbeats = OneThread(self._beat, "tubeclient-producer")
        self._closed = threading.Event()
        self._watch = Watch("a Producer", self._end)

    @property
    def topics(self) -> list[str]:
        """The published topics, sorted."""
        self.check_process()
        return self._routes.topics

    def max_message_bytes(self, topic: str) -> int:
        """Return the size limit of a published topic's messages in bytes, including attributes.

        It is the limit that the master reported last.
        """
        return self._session.max_message_bytes(topic)

    def publish(self, topics: Iterable[str], *, timeout_ms: float = 10_000) -> None:
        """Prepare to send to `topics`.

        Raises:
            PartitionUnavailable: A topic cannot be written within `timeout_ms`. This is a NotAvailable.
            TopicNotDeployed: The master's web port does not list the topic after a second. Waiting would not help.
            ConnectError: No master answers within the time of one call.
            ConfigurationError: No topic is given.
        """
        self._check_open()
        wanted = topic_names(topics)
        if not wanted:
            raise ConfigurationError("publish needs at least one topic")
        began: float | None = monotonic()
        deadline = monotonic() + self._seconds(timeout_ms)
        self._watch.begin()
        self._register()
        starts = {topic: random.randrange(1 << 16) for topic in wanted}
        for attempt in itertools.count():
            busy = ""
            try:
                missing = self._refresh(starts)
            except ServerBusy as error:
                missing, busy = wanted, str(error)
            if not missing:
                return
            now = monotonic()
            if began is not None and now >= min(deadline, began + _FIRST_LOOKS_SECONDS):
                self._check_deployed(missing)
                began = None  # once
            if now >= deadline:
                raise PartitionUnavailable(
                    f"the master lists no partition to write to: {busy or 'it accepts no messages, or does not exist'}",
                    code=423,
                    context=f"publishing to {', '.join(missing)}",
                    topic=missing[0],
                )
            pause = backoff_ms(attempt, random.random(), limit_ms=_PUBLISH_RETRY_MS) / 1000
            self._closed.wait(min(pause, deadline - now))

    def _check_deployed(self, topics: Iterable[str]) -> None:
        """Raise TopicNotDeployed for a topic that the master's web port, if it answers, does not list."""
        try:
            unknown = sorted({*topics}.difference(Admin(self._settings).topic_names()))
        except TubeError:
            return
        if unknown:
            names = ", ".join(unknown)
            raise TopicNotDeployed(
                431,
                f"the cluster has no topic {names}",
                context=f"publishing to {names}",
                topic=unknown[0],
                answered=False,
            )

    def _register(self) -> None:
        """Register the producer at the master, once, and start its heartbeats."""
        with self._session_lock:
            self._check_open()
            if not self._registered:
                self._runner.run(self._session.register())
                self._registered = True
            self._heartbeats.ensure()

    def _refresh(self, starts: Mapping[str, int]) -> list[str]:
        """Ask the master where topics can be written, and publish those of `starts` that can; returns the others."""
        with self._session_lock:
            self._check_open()
            with self._sender.lock:
                topics = {*self._routes.topics, *starts}
            self._runner.run(self._session.refresh(sorted(topics)))
            with self._sender.lock:
                return self._routes.publish(starts, self._session.layouts, self._session.brokers)

    def _beat(self) -> None:
        """Send heartbeats until closed; after a failed one the next comes sooner."""
        failures = 0
        pause_ms = float(HEARTBEAT_INTERVAL_MS)
        while not self._closed.wait(pause_ms / 1000):
            try:
                self._refresh({})
                failures = 0
                pause_ms = HEARTBEAT_INTERVAL_MS
            except TubeError as error:
                pause_ms = backoff_ms(
                    failures, random.random(), first_ms=_BEAT_RETRY_MS, limit_ms=HEARTBEAT_INTERVAL_MS
                )
                failures += 1
                if not self._closed.is_set():
                    _log.warning("a producer's heartbeat failed; the next try is in %.1f s: %s", pause_ms / 1000, error)

    def submit(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
        timeout_ms: float | None = None,
    ) -> Future[SendResult]:
        """Send a message without waiting for the answer.

        Waits while `max_in_flight` messages are in flight. If that takes too long, the future has the error. Callbacks
        of the future must not wait for this producer.

        Args:
            tag: What consumers' filters compare.
            time: The message's time, as yyyyMMddHHmm or a datetime.
            timeout_ms: The time for all attempts together.

        Returns:
            A future with the place of the message, or the error of the last attempt.

        Raises:
            ConfigurationError: The time has another form, or the cluster would refuse the message: it is empty, over
                the topic's limit, or of a topic that is not published.
        """
        message = OutgoingMessage.of(topic, body, tag=tag, time=time, attributes=attributes)
        return self.submit_each([message], timeout_ms=timeout_ms)[0]

    def submit_many(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
        timeout_ms: float | None = None,
    ) -> list[Future[SendResult]]:
        """Send messages that differ only in their bodies: faster than one by one. See `submit` for the arguments.

        Returns:
            The futures, in the order of the bodies.

        Raises:
            ConfigurationError: As in `submit`, before anything is sent.
        """
        messages = OutgoingMessage.of_each(topic, bodies, tag=tag, time=time, attributes=attributes)
        return self.submit_each(messages, timeout_ms=timeout_ms)

    def submit_each(
        self, messages: Sequence[OutgoingMessage], *, timeout_ms: float | None = None
    ) -> list[Future[SendResult]]:
        """Send messages that may differ in everything, like `submit_many`.

        Returns:
            The futures, in the order of the messages.

        Raises:
            ConfigurationError: As in `submit`, before anything is sent.
        """
        self._check_open()
        messages = list(messages)  # a generator, which is no Sequence but may be given, gives them once
        now = monotonic()
        deadline = now + self._seconds(timeout_ms)
        longest: dict[str, int] = {}
        for message in messages:
            if not isinstance(message, OutgoingMessage):  # messages come by the thousand, so call only for errors
                checked_kind(message, OutgoingMessage, "a message", 'OutgoingMessage.of("clicks", b"hello", tag="web")')
            if (size := len(message.payload)) > longest.get(message.topic, -1):
                longest[message.topic] = size
        for topic, size in longest.items():
            if topic not in self._routes:
                raise ConfigurationError(f"topic {topic} was not published; call publish([{topic!r}]) first")
            if size > (limit := self.max_message_bytes(topic)):
                raise ConfigurationError(
                    f"a message of {size} bytes, attributes included, exceeds topic {topic}'s limit of {limit} bytes"
                )
        in_flight = [InFlight(message, deadline, now) for message in messages]
        self._sender.submit(in_flight)
        return [*in_flight]

    def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send a message and wait for the answer. See `submit` for the arguments.

        Raises:
            ConfigurationError: As in `submit`.
            TubeError: The error of the last attempt.
        """
        return self.submit(topic, body, tag=tag, time=time, attributes=attributes, timeout_ms=timeout_ms).result()

    def flush(self, *, timeout_ms: float | None = None) -> None:
        """Wait until every submitted message has been acknowledged or given up.

        Args:
            timeout_ms: How long to wait, by default the settings' `retry_limit_ms`.

        Raises:
            DeadlineExceeded: Messages are still in flight after that time.
        """
        self._check_open()
        if not self._sender.flush(self._seconds(timeout_ms)):
            raise DeadlineExceeded("messages are still in flight; their futures will have the results")

    def close(self, *, timeout_ms: float | None = None) -> None:
        """Wait for messages in flight, unregister from the master, and end threads and connections.

        Every later submit raises ClientClosed.

        Args:
            timeout_ms: How long to wait, by default the settings' `retry_limit_ms`. Messages that have no answer by
                then fail with ClientClosed.
        """
        if not self.inherited:
            self._close(self._seconds(timeout_ms))
            self._watch.end()

    def _close(self, seconds: float) -> None:
        """May be called again."""
        self._sender.close(seconds)
        self._closed.set()
        try:
            # Not by `acquire`, which an interrupt may leave held. Who has it ends within the time of its calls.
            with self._session_lock:
                if self._registered:
                    self._runner.run(self._session.close())
        except TubeError as error:
            _log.info("could not unregister the producer; the master's lease will end: %s", error)
        self._registered = False  # only now: an interrupted caller comes here again
        self._pool.close()
        self._sender.join()
        self._heartbeats.join(_JOIN_SECONDS)

    def _end(self) -> None:
        """The program ends, and nobody closed this producer: nobody looks at its futures, so say what is lost."""
        self._sender.close(_END_SECONDS)
        for topic, count in self._sender.given_up.items():
            _log.error(
                "gave up on %d messages to topic %s: no broker acknowledged them in time, or the program ended. Call "
                "flush or close to wait for them",
                count,
                topic,
            )
        self._close(0)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        self.check_process()
        if self._closed.is_set():
            raise ClientClosed("this producer is closed; make a new one")

    def _seconds(self, timeout_ms: float | None) -> float:
        return (self._settings.retry_limit_ms if timeout_ms is None else max(0.0, given_ms(timeout_ms))) / 1000
