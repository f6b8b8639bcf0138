"""Sending in tasks."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.aio.waits import CancelledAt, while_silent
from tests.tubeclient.stored import bodies
from tubeclient import (
    ClientSettings,
    DeadlineExceeded,
    OutgoingMessage,
    TubeError,
)
from tubeclient.aio import AsyncProducer
from tubeclient.wire.methods import Method


def patient(settings: ClientSettings) -> ClientSettings:
    return replace(settings, rpc_timeout_ms=100_000, connect_timeout_ms=100_000, retry_limit_ms=100_000)


def test_messages_arrive_and_their_results_are_in_order(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    async def sends() -> None:
        async with AsyncProducer(settings, max_in_flight=7) as producer:
            await producer.publish(["clicks", "single"])
            assert (await producer.send("single", b"one", tag="web", time="202601311259")).offset == 0
            results = await producer.send_many("clicks", [b"%d" % number for number in range(100)])
            assert Counter(result.partition.topic for result in results) == {"clicks": 100}
            each: Any = [OutgoingMessage.of("single", b"a"), OutgoingMessage.of("clicks", b"b")]
            assert [result.partition.topic for result in await producer.send_each(iter(each))] == ["single", "clicks"]
            assert await producer.send_many("clicks", []) == []
            await producer.flush()

    asyncio.run(sends())
    assert bodies(cluster) == dict.fromkeys([b"b", *(b"%d" % number for number in range(100))], 1)
    assert bodies(cluster, "single") == {b"one": 1, b"a": 1}


def test_messages_that_fail_are_told_from_those_that_are_stored(
    cluster: EmbeddedTubeMQ, settings: ClientSettings
) -> None:
    async def sends() -> tuple[list[Any], TubeError]:
        async with AsyncProducer(replace(settings, retry_limit_ms=300)) as producer:
            await producer.publish(["single"])
            cluster.broker_faults(1).stop_writing = True
            cluster.broker_faults(2).force(Method.SEND_MESSAGE, 400, times=1)
            results = await producer.send_many("single", [b"x"] * 6, return_exceptions=True, timeout_ms=5_000)
            cluster.broker_faults(2).stop_writing = True
            with pytest.raises(TubeError) as caught:
                await producer.send_many("single", [b"y"] * 6)
            with pytest.raises(DeadlineExceeded) as alone:
                await producer.send("single", b"z")
            assert not hasattr(alone.value, "__notes__")
            return results, caught.value

    results, error = asyncio.run(sends())
    stored = [result for result in results if not isinstance(result, BaseException)]
    assert 0 < len(stored) < 6 == len(results)
    assert bodies(cluster, "single")[b"x"] >= len(stored)
    assert error.__notes__ == ["6 of 6 messages failed; return_exceptions says which"]


@pytest.mark.parametrize("max_in_flight", [1, 1_000])
def test_the_loop_goes_on_while_the_servers_are_silent(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, max_in_flight: int
) -> None:
    async def sends() -> None:
        producer = AsyncProducer(patient(settings), max_in_flight=max_in_flight)
        await while_silent(cluster, producer.publish(["clicks"]))
        await while_silent(cluster, producer.send("clicks", b"x"))
        await while_silent(cluster, producer.send_many("clicks", [b"y"] * 20))

        async def sends_and_flushes() -> None:
            sending = asyncio.create_task(producer.send("clicks", b"z"))
            await asyncio.sleep(0)
            await producer.flush()
            await sending

        await while_silent(cluster, sends_and_flushes())
        await while_silent(cluster, producer.aclose())

    asyncio.run(sends())
    assert bodies(cluster) == {b"x": 1, b"y": 20, b"z": 1}


def test_a_producer_works_with_one_loop_after_the_other(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    producer = AsyncProducer(settings, max_in_flight=3)
    asyncio.run(producer.publish(["clicks"]))
    for _ in range(3):
        asyncio.run(producer.send_many("clicks", [b"x"] * 10))
    asyncio.run(producer.aclose())
    assert bodies(cluster) == {b"x": 30}


def test_wherever_a_send_is_cancelled_every_place_comes_back(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    async def sends() -> None:
        async with AsyncProducer(settings, max_in_flight=2) as producer:
            await producer.publish(["clicks"])
            for number in range(20):
                work = CancelledAt(number, producer.send_many("clicks", [b"x"] * 7))
                await work
                if not work.cancelled:
                    break
                await producer.flush()
            assert number > 2
            await producer.send_many("clicks", [b"last"] * 10)

    asyncio.run(sends())
    assert bodies(cluster)[b"last"] == 10
