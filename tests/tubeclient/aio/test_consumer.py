"""Consumers in tasks: the same messages as without, whatever is cancelled, while the loop goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.group_page import group_page
from tests.tubeclient.aio.waits import CancelledAt, while_silent
from tests.waiting import wait_for
from tubeclient import (
    ClientClosed,
    ClientSettings,
    Delivery,
    PartitionKey,
    StalePack,
)
from tubeclient.aio import AsyncPullConsumer

KEY = PartitionKey(1, "single", 0)
COUNT = 3_000


@pytest.fixture
def messages(cluster: EmbeddedTubeMQ) -> list[bytes]:
    """In many packs of one partition."""
    bodies = [b"%06d" % number + bytes(2_000) for number in range(COUNT)]
    cluster.load("single", [NewMessage(0, body) for body in bodies])
    return bodies


def consumer_of(settings: ClientSettings, group: str = "etl", **options: Any) -> AsyncPullConsumer:
    return AsyncPullConsumer(settings, group, ["single"], start_from="earliest", **options)


def committed(cluster: EmbeddedTubeMQ) -> int | None:
    return cluster.inspect(lambda broker: broker.offsets.committed(Cursor("etl", "single", 0)))


def is_owned(cluster: EmbeddedTubeMQ) -> bool:
    return cluster.inspect(lambda broker: broker.ownership.owner(Cursor("etl", "single", 0))) is not None


async def taken(consumer: AsyncPullConsumer) -> Delivery:
    delivery = await consumer.get(timeout_ms=30_000)
    assert delivery is not None
    return delivery


# Reading


def test_packs_and_messages_come_as_without_asyncio(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[bytes]
) -> None:
    async def packs() -> list[bytes]:
        found: list[bytes] = []
        async with consumer_of(settings, "packs") as consumer:
            async for delivery in consumer:
                found += delivery.bodies
                if len(found) == COUNT:
                    await consumer.confirm(delivery)
                    assert consumer.positions()[KEY].confirmed == COUNT * 28
                    break
        return found

    async def one_by_one() -> list[tuple[PartitionKey, bytes]]:
        found = []
        async with consumer_of(settings, "messages") as consumer:
            async for message in consumer.messages():
                found.append((message.partition, message.body))
                if len(found) == COUNT:
                    break
        return found

    assert asyncio.run(packs()) == messages
    assert asyncio.run(one_by_one()) == [(KEY, body) for body in messages]


def test_a_pack_is_confirmed_when_the_next_is_asked_for(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[bytes]
) -> None:
    """An error in the loop leaves its pack unconfirmed, wherever in the pack it comes."""

    async def fails_in_the_second() -> int:
        seen: list[Delivery] = []
        async with consumer_of(settings) as consumer:
            with suppress(ZeroDivisionError):
                async for message in consumer.messages():
                    if message.delivery not in seen:
                        seen.append(message.delivery)
                    elif len(seen) == 2:
                        raise ZeroDivisionError
            assert await consumer.wait_confirmed(30_000)
        return len(seen[0]) * 28

    assert asyncio.run(fails_in_the_second()) == committed(cluster)


def test_several_tasks_share_a_consumer(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[bytes]
) -> None:
    cluster.load("single", [NewMessage(0, b"%06d" % number) for number in range(COUNT, 2 * COUNT)], broker_id=2)
    found: list[bytes] = []

    async def works(consumer: AsyncPullConsumer) -> None:
        while len(found) < 2 * COUNT:
            delivery = await consumer.get(timeout_ms=200)
            if delivery is not None:
                found.extend(delivery.bodies)
                await consumer.confirm(delivery)

    async def all_of_them() -> None:
        async with consumer_of(settings) as consumer:
            await asyncio.gather(*(works(consumer) for _ in range(3)))

    asyncio.run(all_of_them())
    assert Counter(int(body[:6]) for body in found) == dict.fromkeys(range(2 * COUNT), 1)


# Loops


CALLS: dict[str, Callable[[AsyncPullConsumer, Delivery], Coroutine[Any, Any, Any]]] = {
    "get": lambda consumer, _: consumer.get(timeout_ms=60_000),
    "confirm": lambda consumer, delivery: consumer.confirm(delivery),
    "partitions": lambda consumer, _: consumer.partitions(refresh=True),
    "connect": lambda consumer, _: consumer.connect(KEY),
    "disconnect": lambda consumer, _: consumer.disconnect(KEY, wait_ms=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_loop_goes_on_while_the_servers_are_silent(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[bytes], name: str
) -> None:
    patient = replace(settings, rpc_timeout_ms=100_000, connect_timeout_ms=100_000)

    async def waits() -> None:
        async with consumer_of(patient, prefetch=0) as consumer:
            delivery = await taken(consumer)
            if name == "get":
                await consumer.confirm(delivery, consumed=False)
            await while_silent(cluster, CALLS[name](consumer, delivery))

    asyncio.run(waits())


def test_the_loop_goes_on_while_a_consumer_starts_and_ends_with_silent_servers(
    cluster: EmbeddedTubeMQ, settings: ClientSettings
) -> None:
    patient = replace(settings, rpc_timeout_ms=100_000, connect_timeout_ms=100_000)

    async def waits() -> None:
        consumer = consumer_of(patient)
        await while_silent(cluster, consumer.start())
        assert await consumer.wait_ready(30_000)
        await while_silent(cluster, consumer.aclose())

    asyncio.run(waits())
    assert not is_owned(cluster)


def test_a_consumer_works_with_one_loop_after_the_other(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[bytes]
) -> None:
    consumer = consumer_of(settings)
    found: list[bytes] = []

    async def one_pack() -> None:
        delivery = await taken(consumer)
        await consumer.confirm(delivery)
        found.extend(delivery.bodies)

    async def cancelled_in_a_get() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(consumer.wait_ready(60_000), 0.001)
        consumer.sync.disconnect(KEY)
        with suppress(TimeoutError):
            await asyncio.wait_for(consumer.get(timeout_ms=60_000), 0.01)
        await consumer.connect(PartitionKey(1, "single", 0), found.__len__() * 28)

    asyncio.run(consumer.start())
    for work in (one_pack, one_pack, cancelled_in_a_get, one_pack):
        asyncio.run(work())
    asyncio.run(consumer.aclose())
    assert found == messages[: len(found)]


# Cancelled


# With packs at hand a call waits rarely, and then once.
@pytest.mark.parametrize(("prefetch", "waits"), [(0, 7), (2, 2)])
def test_wherever_a_get_is_cancelled_each_message_comes_once(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[bytes], prefetch: int, waits: int
) -> None:
    cluster.broker_faults(1).half_packs = True
    found: list[bytes] = []
    cancelled = 0

    async def reads() -> None:
        nonlocal cancelled
        number = 0
        async with consumer_of(settings, prefetch=prefetch) as consumer:
            while len(found) < COUNT:
                work = CancelledAt(number % waits, consumer.get(timeout_ms=1_000))
                number += 1
                delivery = await work
                cancelled += work.cancelled
                if delivery is not None:
                    found.extend(delivery.bodies)
                    await consumer.confirm(delivery)

    asyncio.run(asyncio.wait_for(reads(), 120))
    assert found == messages
    assert cancelled > 3
    assert committed(cluster) == COUNT * 28


@pytest.mark.parametrize("name", ["confirm", "confirm_async"])
def test_wherever_a_confirmation_is_cancelled_nothing_is_lost(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[bytes], name: str
) -> None:
    """Its pack may come again."""
    cluster.broker_faults(1).half_packs = True
    found: list[bytes] = []
    unsure: list[bytes] = []

    async def reads() -> None:
        number = 0
        async with consumer_of(settings, confirm_timeout_ms=1_000) as consumer:
            while len({*found, *unsure}) < COUNT or (committed(cluster) or 0) < COUNT * 28:
                delivery = await consumer.get(timeout_ms=200)
                if delivery is None:
                    continue
                work = CancelledAt(number % 5, getattr(consumer, name)(delivery))
                number += 1
                with suppress(StalePack):
                    await work
                (unsure if work.cancelled else found).extend(delivery.bodies)

    asyncio.run(asyncio.wait_for(reads(), 120))
    assert {*found, *unsure} == set(messages)
    assert unsure
    assert Counter(found).most_common(1)[0][1] == 1 or {*found} & {*unsure}


def test_a_start_that_is_cancelled_gives_its_place_back(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    async def cancelled() -> None:
        async with consumer_of(settings):
            late = consumer_of(settings)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(late.start(patience_ms=600_000), 0.3)
            await late.aclose()
            with pytest.raises(ClientClosed):
                await late.get()

    asyncio.run(asyncio.wait_for(cancelled(), 60))
    assert group_page(cluster.master_web_port, "etl") == {}


# Ends


def test_a_closed_consumer_ends_loops_and_calls(settings: ClientSettings) -> None:
    async def ends() -> None:
        consumer = await consumer_of(settings).start()
        waits = asyncio.create_task(consumer.get(timeout_ms=60_000))

        async def loops() -> str:
            async for _ in consumer:
                raise AssertionError
            return "over"

        looping = asyncio.create_task(loops())
        await asyncio.sleep(0.05)
        await consumer.aclose()
        assert consumer.closed
        with pytest.raises(ClientClosed):
            await waits
        assert await looping == "over"
        for call in (consumer.get, consumer.partitions, consumer.start):
            with pytest.raises(ClientClosed):
                await call()
        await consumer.aclose()

    asyncio.run(ends())


def test_a_consumer_that_was_not_closed_gives_its_partitions_back(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async def forgets() -> None:
        consumer = await consumer_of(settings).start()
        assert await consumer.wait_ready(30_000)
        assert is_owned(cluster)

    with caplog.at_level(logging.WARNING):
        asyncio.run(forgets())
        wait_for(lambda: not is_owned(cluster), "the release")
        wait_for(lambda: not [one for one in threading.enumerate() if "tubeclient-" in one.name], "the threads' end")
    assert "was not closed before it was garbage-collected" in caplog.text
