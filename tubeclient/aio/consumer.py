"""Consumers for asyncio. What waits for messages runs as a task; the sync consumer below has everything else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Generic, Self, TypeVar, Unpack

from tubeclient.aio.running import Threads, run_flow
from tubeclient.consumers.consumer import ClientBalanceConsumer
from tubeclient.consumers.pull_consumer import ConsumerOptions, PullConsumer, PullOptions
from tubeclient.consumers.running_consumer import Running
from tubeclient.errors import ClientClosed, StalePack
from tubeclient.flows.effects import Flow
from tubeclient.flows.message_pack import Delivery, Position, ReceivedMessage
from tubeclient.flows.read_plan import BootstrapOffset
from tubeclient.keys import PartitionKey
from tubeclient.names import Topics
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)

C = TypeVar("C", bound=ClientBalanceConsumer)
T = TypeVar("T")


class _AsyncConsumer(Generic[C]):
    def __init__(self, consumer: C) -> None:
        self.sync = consumer
        """The consumer below. What does not wait is there: `positions`, `topics`, `members`, `rebalance`, ..."""
        self._threads = Threads(consumer)

    async def start(self, *, patience_ms: float = 0) -> Self:
        """Register at the master; `async with` does it too. See ClientBalanceConsumer.start.

        A cancelled start closes the consumer: what it may have registered is given back.
        """
        try:
            await self._threads.run(partial(self.sync.start, patience_ms=patience_ms))
        except asyncio.CancelledError:
            self._threads.end(self.sync.close)
            raise
        return self

    async def aclose(self, *, wait_ms: float = 0) -> None:
        """Give all partitions back, leave the group and end all threads; see ClientBalanceConsumer.close. Goes on in
        the background if it is cancelled."""
        await self._threads.close(partial(self.sync.close, wait_ms=wait_ms))

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.sync.closed

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except Exception:
            await self.aclose()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.sync!r}>"

    # Partitions

    async def partitions(self, *, refresh: bool = False) -> dict[PartitionKey, bool]:
        """All configured partitions of the topics, and whether each takes readers now."""
        return await self._threads.run(partial(self.sync.partitions, refresh=refresh))

    async def connect(
        self, partition: PartitionKey, offset: int = BootstrapOffset.STORED, *, timeout_ms: float = 0
    ) -> int:
        """Read a partition from now on, or move it; see ClientBalanceConsumer.connect. A cancelled call goes on to its
        end, and may connect it."""
        return await self._threads.run(partial(self.sync.connect, partition, offset, timeout_ms=timeout_ms))

    async def disconnect(self, partition: PartitionKey, *, wait_ms: float = 3_000) -> bool:
        """Give a partition back. False if it is not connected. A cancelled call goes on to its end."""
        return await self._threads.run(partial(self.sync.disconnect, partition, wait_ms=wait_ms))

    def registered(self) -> list[PartitionKey]:
        """The connected partitions, sorted."""
        return self.sync.registered()

    async def wait_ready(self, timeout_ms: float) -> bool:
        """Wait until a partition is connected. False if none is after `timeout_ms`."""
        running = self.sync._live()
        return await self._run(running, running.registrations.wait_registered(timeout_ms))

    def positions(self) -> dict[PartitionKey, Position]:
        """How far each connected partition was confirmed and fetched."""
        return self.sync.positions()

    # Messages

    async def get(self, *, timeout_ms: float = 1_000) -> Delivery | None:
        """Return the next pack of messages, None if there was none for `timeout_ms`; raises as
        ClientBalanceConsumer.get. Several tasks may call it. A cancelled call takes no pack: the next call gets it.
        """
        running = self.sync._live()
        return await self._run(running, running.consumption.get(timeout_ms=timeout_ms))

    async def confirm(self, delivery: Delivery, *, consumed: bool = True) -> int:
        """Say that a pack was processed, or with `consumed` false, that it must be read again; see
        ClientBalanceConsumer.confirm. After a cancelled call the pack may be confirmed or not; if it is not, its
        messages come again.
        """
        running = self.sync._started()
        return await self._run(running, running.consumption.confirm(delivery, consumed=consumed))

    async def confirm_async(self, delivery: Delivery, *, consumed: bool = True) -> None:
        """As `confirm`, but waits only until the request is written; see ClientBalanceConsumer.confirm_async."""
        running = self.sync._started()
        await self._run(running, running.consumption.confirm_async(delivery, consumed=consumed))

    async def wait_confirmed(self, timeout_ms: float) -> bool:
        """Wait until all confirmations of `confirm_async` were answered. False if that takes longer."""
        running = self.sync._started()
        return await self._run(running, running.consumption.wait_confirmed(timeout_ms))

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Packs, without end until the consumer is closed. The next step of the loop confirms the last pack, as
        `confirm_async` does, unless that was done. The pack at which the loop is left stays unconfirmed."""
        while not self.closed:
            try:
                delivery = await self.get()
            except ClientClosed:
                return
            if delivery is None:
                continue
            yield delivery
            if not delivery.settled:
                try:
                    await self.confirm_async(delivery)
                except (StalePack, ClientClosed) as error:
                    _log.warning("%r could not be confirmed: %s", delivery, error)

    async def messages(self) -> AsyncIterator[ReceivedMessage]:
        """Messages one by one, without end until the consumer is closed. A pack is confirmed when the message after its
        last one is asked for; see ClientBalanceConsumer.messages."""
        async with aclosing(self.__aiter__()) as packs:  # type: ignore[type-var]  # it is a generator
            async for delivery in packs:
                for message in delivery.received():
                    yield message

    async def _run(self, running: Running, flow: Flow[T]) -> T:
        return await run_flow(running.runner, self._threads, flow, partial(self.sync._events.handle, running))


class AsyncClientBalanceConsumer(_AsyncConsumer[ClientBalanceConsumer]):
    """`ClientBalanceConsumer` for asyncio, with the same arguments. `connect` says which partitions it reads.

    Callbacks (`on_assigned`, ...) run on the thread that found out, which may be the loop's; they must not wait.
    """

    def __init__(
        self,
        settings: ClientSettings,
        consumer_group: str,
        topics: Topics,
        *,
        source_count: int = -1,
        node_id: int = -1,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            ClientBalanceConsumer(
                settings, consumer_group, topics, source_count=source_count, node_id=node_id, **options
            )
        )


class AsyncPullConsumer(_AsyncConsumer[PullConsumer]):
    """`PullConsumer` for asyncio, with the same arguments: it connects its partitions by itself.

    Callbacks (`on_assigned`, ...) run on the thread that found out, which may be the loop's; they must not wait.

    >>> async with AsyncPullConsumer(settings, "etl", ["clicks"]) as consumer:  # doctest: +SKIP
    ...     async for message in consumer.messages():
    ...         await handle(message.body)
    """

    def __init__(
        self, settings: ClientSettings, consumer_group: str, topics: Topics, **options: Unpack[PullOptions]
    ) -> None:
        super().__init__(PullConsumer(settings, consumer_group, topics, **options))
