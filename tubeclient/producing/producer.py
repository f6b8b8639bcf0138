"""Sending messages."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from time import monotonic

from tubeclient.admin import Admin
from tubeclient.arguments import checked_kind
from tubeclient.errors import (
    ConfigurationError,
    DeadlineExceeded,
    PartitionUnavailable,
    ServerBusy,
    TopicNotDeployed,
    TubeError,
)
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.patience import given_ms
from tubeclient.names import topic_names
from tubeclient.net.forgotten import Watch
from tubeclient.net.fork import ProcessBound
from tubeclient.net.sending import Answer, Sending, SendResult
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.producing.publishing import Publishing
from tubeclient.settings import ClientSettings, checked_settings

__all__ = ["Producer", "SendResult"]

_PUBLISH_RETRY_MS = 1_000
_FIRST_LOOKS_MS = 1_000
"""How long to wait for a topic before asking the master whether it exists."""


class Producer(ProcessBound):
    """Sends messages to the writable partitions of its topics, in turn.

    At least once: a message without an answer is sent again, within its time limit, to another partition. So the order
    within a partition is the order of the submits only while nothing fails. A partition that fails more than three
    times in a row rests for 3 s, an unavailable broker for 50 s. At most `max_in_flight` messages are in flight; then
    `submit` waits. Thread-safe; forked children make their own. Close it, or use it as a context manager: closing waits
    for messages in flight.

    `timeout_ms` of a message is the time for all attempts together, by default the settings' `retry_limit_ms`. A
    message that exceeds it fails with DeadlineExceeded, but may have arrived.

        >>> with Producer(ClientSettings(("127.0.0.1:8715",))) as producer:  # doctest: +SKIP
        ...     producer.publish(["clicks"])
        ...     producer.send("clicks", b"hello", tag="web").offset
    """

    def __init__(self, settings: ClientSettings, *, max_in_flight: int = 1_000) -> None:
        super().__init__()
        if isinstance(max_in_flight, bool) or not isinstance(max_in_flight, int) or max_in_flight < 1:
            raise ConfigurationError(f"max_in_flight must be a number of messages, 1 or more, not {max_in_flight!r}")
        self._settings = checked_settings(settings)
        self._publishing = Publishing(self._settings, max_in_flight)
        self._outbox = self._publishing.outbox
        self._routes = self._publishing.routes
        self._watch = Watch(self, "a Producer", self._publishing.end, self._outbox.flush)

    @property
    def client_id(self) -> str:
        """The client id at master and brokers."""
        return self._publishing.client_id

    @property
    def topics(self) -> list[str]:
        """The published topics, sorted."""
        self.check_process()
        return self._routes.topics

    def is_writable(self, topic: str) -> bool:
        """Whether the topic is published, and the master's last list has a writable partition."""
        self.check_process()
        return self._routes.is_writable(topic)

    def max_message_bytes(self, topic: str) -> int:
        """The largest message of a published topic, including attributes, as last reported by the master."""
        return self._publishing.session.max_message_bytes(topic)

    def publish(self, topics: Iterable[str], *, timeout_ms: float = 10_000) -> None:
        """Prepare to send to `topics`.

        PartitionUnavailable (a NotAvailable) for a topic that cannot be written within `timeout_ms`. TopicNotDeployed
        if the master's web port does not list the topic after a second, because waiting would not help. ConnectError,
        within the time of one call, if no master answers.
        """
        self._check_open()
        wanted = topic_names(topics)
        if not wanted:
            raise ConfigurationError("publish takes at least one topic")
        deadline = monotonic() + self._seconds(timeout_ms)
        self._watch.begin()
        self._publishing.register()
        starts = {topic: random.randrange(1 << 16) for topic in wanted}
        missing, busy = self._wait_writable(starts, min(deadline, monotonic() + _FIRST_LOOKS_MS / 1000))
        if not missing:
            return
        why = self._why_not_writable(missing)
        missing, busy = self._wait_writable(starts, deadline)
        if missing:
            raise PartitionUnavailable(
                f"the master lists no partition to write to: {busy or why}",
                code=423,
                context=f"publishing to {', '.join(missing)}",
                topic=missing[0],
            )

    def _wait_writable(self, starts: Mapping[str, int], deadline: float) -> tuple[list[str], str]:
        """Ask the master until all topics of `starts` can be written, or until `deadline`. Returns those that cannot,
        and the master's text if it was too busy to answer."""
        attempt = 0
        while True:
            busy = ""
            try:
                missing = self._publishing.refresh(starts)
            except ServerBusy as error:
                missing, busy = sorted(starts), str(error)
            left = deadline - monotonic()
            if not missing or left <= 0:
                return missing, busy
            pause = backoff_ms(attempt, random.random(), limit_ms=_PUBLISH_RETRY_MS) / 1000
            attempt += 1
            self._publishing.closed.wait(min(pause, left))

    def _why_not_writable(self, topics: Iterable[str]) -> str:
        """A possible reason why the master lists no partition of the topics. Raises TopicNotDeployed for a topic that
        its web port does not list."""
        unsure = "the topic takes no messages now or does not exist; check its spelling"
        try:
            there = Admin(self._settings).topic_names()
        except TubeError:  # no web port there, so the reason is unknown
            port = self._settings.master_web_port
            return f"{unsure}, and master_web_port: web port {port}, which would say which, does not answer"
        if unknown := sorted({*topics}.difference(there)):
            names = ", ".join(unknown)
            raise TopicNotDeployed(
                431,
                f"the cluster has no topic {names}",
                context=f"publishing to {names}",
                topic=unknown[0],
                answered=False,
            )
        return "the topic takes no messages now"

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
        """Send without waiting for the answer. `tag` is for consumers' filters; `time` is yyyyMMddHHmm or a datetime.

        Raises ConfigurationError for a time of another form, and for a message that the cluster would refuse: empty,
        over the topic's limit, or of a topic not published. Waits while `max_in_flight` messages are in flight; if that
        takes too long, the future has the error. Callbacks of the future must not wait for this producer.
        """
        return self.submit_many(topic, [body], tag=tag, time=time, attributes=attributes, timeout_ms=timeout_ms)[0]

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
        """Send messages that differ only in their bodies, with few writes: several times faster than one by one.

        The futures are in the order of the bodies. Raises as `submit` does, before anything is sent.
        """
        messages = OutgoingMessage.of_each(topic, bodies, tag=tag, time=time, attributes=attributes)
        return self.submit_each(messages, timeout_ms=timeout_ms)

    def submit_each(
        self, messages: Sequence[OutgoingMessage], *, timeout_ms: float | None = None
    ) -> list[Future[SendResult]]:
        """Send messages that may differ in everything, with few writes, like `submit_many`.

        The futures are in the order of the messages. Raises as `submit` does, before anything is sent.
        """
        self._check_open()
        messages = list(messages)  # a generator, which is no Sequence but may be given, gives them once
        deadline = monotonic() + self._seconds(timeout_ms)
        longest: dict[str, int] = {}
        for message in messages:
            if not isinstance(message, OutgoingMessage):  # messages come by the thousand, so call only for errors
                checked_kind(message, OutgoingMessage, "a message", 'OutgoingMessage.of("clicks", b"hello", tag="web")')
            longest[message.topic] = max(longest.get(message.topic, 0), len(message.payload))
        for topic, size in longest.items():
            self._check_topic(topic)
            self._check_size(topic, size)
        sendings = [Sending(*message, Answer(self), deadline) for message in messages]
        self._outbox.submit(sendings)
        return [sending.result for sending in sendings]

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
        """Send and wait for the answer; raises the error of the last attempt."""
        deadline = monotonic() + self._seconds(timeout_ms)
        answer = self.submit(topic, body, tag=tag, time=time, attributes=attributes, timeout_ms=timeout_ms)
        try:
            # A little longer than the message's own time: its own error says more.
            return answer.result(max(0.0, deadline - monotonic()) + self._settings.connect_timeout_ms / 1000)
        except TimeoutError as error:
            if isinstance(error, TubeError):
                raise
            raise DeadlineExceeded(f"no answer in time to a message sent to topic {topic}") from None

    def flush(self, *, timeout_ms: float | None = None) -> None:
        """Wait until every submitted message has been acknowledged or given up.

        DeadlineExceeded if that takes longer than `timeout_ms` (default: `retry_limit_ms`).
        """
        self._check_open()
        if not self._outbox.flush(self._seconds(timeout_ms)):
            raise DeadlineExceeded("messages are still in flight; their futures will have the results")

    def close(self, *, timeout_ms: float | None = None) -> None:
        """Wait for messages in flight, unregister from the master, end threads and connections.

        Messages without an answer after `timeout_ms` (default: `retry_limit_ms`) fail with ClientClosed; so does every
        later submit.
        """
        if self.inherited:
            return
        self._publishing.close(self._seconds(timeout_ms))
        self._watch.end()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        self.check_process()
        self._publishing.check_open()

    def _seconds(self, timeout_ms: float | None) -> float:
        return (self._settings.retry_limit_ms if timeout_ms is None else max(0.0, given_ms(timeout_ms))) / 1000

    def _check_topic(self, topic: str) -> None:
        if topic not in self._routes:
            raise ConfigurationError(f"topic {topic} was not published; call publish([{topic!r}]) first")

    def _check_size(self, topic: str, size: int) -> None:
        limit = self.max_message_bytes(topic)
        if size > limit:
            raise ConfigurationError(
                f"a message of {size} bytes, attributes included, exceeds topic {topic}'s limit of {limit} bytes"
            )
