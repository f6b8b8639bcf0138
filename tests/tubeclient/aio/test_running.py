"""Flows and blocking calls that tasks wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from tests.tubeclient.test_producer_slow_brokers import port_that_drops_connections
from tests.waiting import wait_for
from tubeclient.aio.running import Threads, Wake, finished, run_flow
from tubeclient.errors import ConnectError
from tubeclient.flows.effects import Emit, Flow, Notify, Now, Send, Sleep, WallClock
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

T = TypeVar("T")

LONG_MS = 600_000.0


class Bed:
    """What flows run on."""

    def __init__(self) -> None:
        self.pool = ConnectionPool(ClientSettings("127.0.0.1:1", connect_timeout_ms=2_000))
        self.runner = FlowRunner(self.pool)
        self.threads = Threads(self.pool)
        self.events: list[Any] = []

    async def run(self, flow: Flow[T]) -> T:
        return await run_flow(self.runner, self.threads, flow, self.events.append)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(asyncio.wait_for(work, 60))


@pytest.fixture
def bed() -> Iterator[Bed]:
    bed = Bed()
    yield bed
    asyncio.run(bed.threads.close(bed.pool.close))


def sends(port: int, ended: list[str]) -> Flow[Any]:
    try:
        yield Send(
            f"127.0.0.1:{port}",
            Method.GET_MESSAGES,
            broker_pb2.GetMessageRequestC2B(clientId="one", partitionId=0, groupName="etl", topicName="clicks"),
        )
    finally:
        ended.append("ended")


def sleeps(ended: list[str], signal: str = "") -> Flow[str]:
    try:
        cut_short = yield Sleep(LONG_MS, signal)
        return "woken" if cut_short else "slept"
    finally:
        ended.append("ended")


def test_a_flow_gives_its_result_and_its_events(bed: Bed) -> None:
    def flow() -> Flow[str]:
        before = yield Now()
        assert not (yield Sleep(5))
        assert (yield Now()) >= before + 5
        assert (yield WallClock()) > 1e12
        yield Emit("an event")
        return "the result"

    assert bed.do(bed.run(flow())) == "the result"
    assert bed.events == ["an event"]


def test_an_error_of_an_effect_is_raised_in_the_flow(bed: Bed) -> None:
    def flow() -> Flow[str]:
        try:
            yield from sends(1, [])
        except ConnectError as error:
            return error.address
        raise AssertionError

    assert bed.do(bed.run(flow())) == "127.0.0.1:1"
    with pytest.raises(ConnectError):
        bed.do(bed.run(sends(1, [])))


def test_a_signal_wakes_a_flow_also_before_it_waits(bed: Bed) -> None:
    def notifies() -> Flow[None]:
        yield Notify("now")

    async def both() -> str:
        sleeping = asyncio.create_task(bed.run(sleeps([], "now")))
        await asyncio.sleep(0)
        bed.runner.run(notifies())  # on another thread it would be no different
        return await sleeping

    assert bed.do(both()) == "woken"


@pytest.mark.parametrize("signal", ["", "now"])
def test_a_cancelled_task_closes_its_flow(bed: Bed, signal: str) -> None:
    ended: list[str] = []

    async def cancelled() -> None:
        task = asyncio.create_task(bed.run(sleeps(ended, signal)))
        await asyncio.sleep(0.01)
        assert not ended
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended

    bed.do(cancelled())


def test_while_a_thread_connects_the_loop_goes_on_and_a_cancelled_task_ends_at_once(bed: Bed) -> None:
    """The flow ends when the thread is done with its request, which a later one cannot overtake."""
    ended: list[str] = []

    async def cancelled() -> None:
        with port_that_drops_connections() as port:
            task = asyncio.create_task(bed.run(sends(port, ended)))
            for _ in range(20):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not ended

    bed.do(cancelled())
    wait_for(lambda: ended, "the end of the flow")


def test_what_is_told_after_its_loop_is_closed_harms_nobody() -> None:
    future: Future[None] = Future()

    async def leaves() -> bool:
        assert not await finished(future, 0.01)
        return await finished(future, 0)

    async def makes() -> Wake:
        return Wake()

    assert not asyncio.run(leaves())
    future.set_result(None)
    asyncio.run(makes())()
