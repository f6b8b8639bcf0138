"""Exact ranges in tasks."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.aio.waits import while_silent
from tests.tubeclient.occupying import occupy
from tubeclient import (
    BrokerInfo,
    ClientClosed,
    ClientSettings,
    OffsetRange,
    PartitionKey,
    WantedRange,
    fetch_view,
    reader_groups_of,
)
from tubeclient.aio import AsyncRangeReader

GROUPS = reader_groups_of("etl")
COUNT = 3_000


@pytest.fixture
def broker(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> BrokerInfo:
    cluster.load("clicks", [NewMessage(n % 2, b"%06d" % n + bytes(1_000)) for n in range(COUNT)])
    return fetch_view(settings, ["clicks"], GROUPS).brokers[1]


def span(start: int, end: int, partition: int = 1) -> OffsetRange:
    return OffsetRange(PartitionKey(1, "clicks", partition), start * 28, end * 28)


def is_owned(cluster: EmbeddedTubeMQ, partition: int = 1) -> bool:
    """Whether somebody reads the partition."""
    cursors = [Cursor(group, "clicks", partition) for group in GROUPS]
    return cluster.inspect(lambda machine: any(machine.ownership.owner(cursor) is not None for cursor in cursors))


async def numbers(reader: AsyncRangeReader, broker: BrokerInfo, piece: OffsetRange) -> list[int]:
    return [int(body[:6]) async for pack in reader.read(broker, piece) for body in pack.bodies]


def test_a_range_and_many_give_what_they_give_without_asyncio(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo
) -> None:
    async def reads() -> None:
        async with AsyncRangeReader(settings, GROUPS) as reader:
            assert await numbers(reader, broker, span(100, 2_900)) == list(range(101, 2_900, 2))
            wanted = [WantedRange(broker, span(0, COUNT, partition)) for partition in (0, 1)]
            got: dict[int, list[int]] = {0: [], 1: []}
            ended = []
            async for number, pack in reader.read_all(wanted):
                got[number] += [] if pack is None else [int(body[:6]) for body in pack.bodies]
                ended += [number] if pack is None else []
            assert got == {0: list(range(0, COUNT, 2)), 1: list(range(1, COUNT, 2))}
            assert sorted(ended) == [0, 1]

    asyncio.run(reads())
    assert not is_owned(cluster)


def test_the_loop_goes_on_while_the_broker_is_silent(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo
) -> None:
    patient = replace(settings, rpc_timeout_ms=100_000, connect_timeout_ms=100_000, retry_limit_ms=100_000)

    async def reads() -> None:
        async with AsyncRangeReader(patient, GROUPS) as reader:
            found = await while_silent(cluster, numbers(reader, broker, span(0, COUNT)))
            assert found == list(range(1, COUNT, 2))

    asyncio.run(reads())


@pytest.mark.parametrize("how", ["left", "closing", "cancelled"])
def test_a_read_that_is_left_gives_its_partition_back(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo, how: str
) -> None:
    async def leaves() -> None:
        async with AsyncRangeReader(settings, GROUPS) as reader:
            got = asyncio.Event()

            async def reads() -> None:
                async with aclosing(reader.read(broker, span(0, COUNT))) as packs:
                    async for _ in packs:
                        got.set()
                        if how == "closing":
                            break
                        await asyncio.Event().wait()

            if how == "left":
                async for _ in reader.read(broker, span(0, COUNT)):
                    break
            else:
                task = asyncio.create_task(reads())
                await got.wait()
                if how == "cancelled":
                    task.cancel()
                await asyncio.wait([task])
            while is_owned(cluster):
                await asyncio.sleep(0.02)
            # The reader goes on.
            assert await numbers(reader, broker, span(0, 100)) == list(range(1, 100, 2))

    asyncio.run(asyncio.wait_for(leaves(), 60))


def test_a_cancelled_read_that_waits_for_its_turn_ends_soon(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo
) -> None:
    """It would wait for ten minutes."""

    async def waits() -> None:
        reader = AsyncRangeReader(settings, GROUPS[:1])
        with occupy(cluster, settings, PartitionKey(1, "clicks", 1), GROUPS[:1]):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(numbers(reader, broker, span(0, COUNT)), 0.3)
            await reader.aclose()

    asyncio.run(asyncio.wait_for(waits(), 60))


def test_closing_ends_reads_that_wait_and_reads_that_stand(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo
) -> None:
    async def closes() -> None:
        reader = AsyncRangeReader(settings, GROUPS)
        standing = reader.read(broker, span(0, COUNT, 0))
        await anext(standing)
        with occupy(cluster, settings, PartitionKey(1, "clicks", 1), GROUPS):
            waiting = asyncio.create_task(numbers(reader, broker, span(0, COUNT)))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            await reader.aclose()
            with pytest.raises(ClientClosed, match="this RangeReader is closed"):
                await waiting
        assert not is_owned(cluster, 0)
        with pytest.raises(ClientClosed):
            await anext(standing)
        with pytest.raises(ClientClosed, match="AsyncRangeReader is closed"):
            await anext(reader.read(broker, span(0, COUNT)))
        await reader.aclose()

    asyncio.run(asyncio.wait_for(closes(), 60))
