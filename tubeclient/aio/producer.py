"""A producer for asyncio: hands messages to the sync producer's threads, and waits for their answers as a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, Literal, overload

from tubeclient.aio.running import Threads, Wake, finished
from tubeclient.errors import DeadlineExceeded
from tubeclient.net.sending import Sending, SendResult
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.producing.producer import Producer
from tubeclient.settings import ClientSettings


class AsyncProducer:
    """`Producer` for asyncio, with the same arguments and guarantees. Several tasks may send at once.

    While `max_in_flight` messages are in flight, sending tasks wait for room. A cancelled send cannot take back what
    was handed over: those messages may be stored.

    >>> async with AsyncProducer(ClientSettings("127.0.0.1:8715")) as producer:  # doctest: +SKIP
    ...     await producer.publish(["clicks"])
    ...     (await producer.send("clicks", b"hello", tag="web")).offset
    """

    def __init__(self, settings: ClientSettings, *, max_in_flight: int = 1_000) -> None:
        self.sync = Producer(settings, max_in_flight=max_in_flight)
        """The producer below. What does not wait is there: `topics`, `is_writable`, `max_message_bytes`, ..."""
        self._threads = Threads(self.sync)
        self._grace_seconds = settings.connect_timeout_ms / 1000

    async def publish(self, topics: Iterable[str], *, timeout_ms: float = 10_000) -> None:
        """Prepare to send to `topics`; see Producer.publish. A cancelled call goes on to its end."""
        await self._threads.run(partial(self.sync.publish, topics, timeout_ms=timeout_ms))

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
        timeout_ms: float | None = None,
    ) -> SendResult:
        """Send a message and wait for the answer; raises the error of the last attempt. See Producer.send."""
        message = OutgoingMessage.of(topic, body, tag=tag, time=time, attributes=attributes)
        return (await self.send_each([message], timeout_ms=timeout_ms))[0]

    @overload
    async def send_many(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
        timeout_ms: float | None = None,
        return_exceptions: Literal[False] = False,
    ) -> list[SendResult]: ...

    @overload
    async def send_many(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
        timeout_ms: float | None = None,
        return_exceptions: bool,
    ) -> list[SendResult | BaseException]: ...

    async def send_many(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
        timeout_ms: float | None = None,
        return_exceptions: bool = False,
    ) -> list[SendResult] | list[SendResult | BaseException]:
        """Send messages that differ only in their bodies, with few writes, and wait for all answers.

        The results are in the order of the bodies. ConfigurationError, before anything is sent, for a message that the
        cluster would refuse. If messages fail, raises the error of the first of them once all have their answers, with
        a note of how many failed. With `return_exceptions` the errors are among the results.
        """
        messages = OutgoingMessage.of_each(topic, bodies, tag=tag, time=time, attributes=attributes)
        return await self.send_each(messages, timeout_ms=timeout_ms, return_exceptions=return_exceptions)

    @overload
    async def send_each(
        self,
        messages: Sequence[OutgoingMessage],
        *,
        timeout_ms: float | None = None,
        return_exceptions: Literal[False] = False,
    ) -> list[SendResult]: ...

    @overload
    async def send_each(
        self, messages: Sequence[OutgoingMessage], *, timeout_ms: float | None = None, return_exceptions: bool
    ) -> list[SendResult | BaseException]: ...

    async def send_each(
        self,
        messages: Sequence[OutgoingMessage],
        *,
        timeout_ms: float | None = None,
        return_exceptions: bool = False,
    ) -> list[SendResult] | list[SendResult | BaseException]:
        """Send messages that may differ in everything, like `send_many`."""
        sendings = self.sync._sendings(messages, timeout_ms)
        await self._deliver(sendings)
        outcomes: list[Any] = [_outcome(sending) for sending in sendings]
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors and not return_exceptions:
            if len(outcomes) > 1:
                errors[0].add_note(f"{len(errors)} of {len(outcomes)} messages failed; return_exceptions says which")
            try:
                raise errors[0]
            finally:
                del errors, outcomes, sendings  # the error refers to this frame
        return outcomes

    async def flush(self, *, timeout_ms: float | None = None) -> None:
        """Wait until every message that was handed over has been acknowledged or given up, also those of cancelled
        sends. DeadlineExceeded as Producer.flush."""
        await self._threads.run(partial(self.sync.flush, timeout_ms=timeout_ms))

    async def aclose(self, *, timeout_ms: float | None = None) -> None:
        """Wait for messages in flight, unregister from the master, end threads and connections; see Producer.close.
        Goes on in the background if it is cancelled."""
        await self._threads.close(partial(self.sync.close, timeout_ms=timeout_ms))

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _deliver(self, sendings: Sequence[Sending]) -> None:
        """Hand messages over, and wait until all have their answers or their time is over."""
        outbox = self.sync._outbox
        for _ in outbox.entering(sendings):
            wake = Wake()
            outbox.tell_of_room(wake)
            await wake.wait(sendings[0].deadline - monotonic())
        for sending in reversed(sendings):  # with the last answer, most are there
            # A little longer than the message's own time: its own error says more.
            await finished(sending.result, sending.deadline + self._grace_seconds - monotonic())


def _outcome(sending: Sending) -> SendResult | BaseException:
    if not sending.result.done():
        return DeadlineExceeded(f"no answer in time to a message sent to topic {sending.topic}")
    return sending.result.exception(0) or sending.result.result(0)
