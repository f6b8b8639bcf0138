"""What asyncio costs: `tubeclient.aio` beside the sync client, each the same work, taking turns.

On embedded_tubemq in a process of its own. The figures are messages a second; `ratio` is that of the medians, and `CPU`
that of the CPU time of the client's process, starts and ends included. A fifth of the messages is sent with each
`send_many`, and a hundredth one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import count
from statistics import median

from bench.embedded_process import embedded_tubemq
from embedded_tubemq import TopicConfig
from tubeclient import (
    Admin,
    ClientSettings,
    OffsetRange,
    Producer,
    PullConsumer,
    RangeReader,
    WantedRange,
    fetch_view,
    reader_groups_of,
)
from tubeclient.aio import AsyncProducer, AsyncPullConsumer, AsyncRangeReader

__all__ = ["main"]

_READY_MS = 30_000
_GROUPS = reader_groups_of("bench_asyncio")


class _Work:
    """Each method measures one thing and returns the messages a second."""

    def __init__(self, settings: ClientSettings, messages: int, size: int) -> None:
        self._settings = settings
        self._bodies = [bytes(size)] * messages
        self._many = self._bodies[: messages // 5]
        self._single = self._bodies[: messages // 100]
        self._numbers = count()

    def send_many(self) -> float:
        with Producer(self._settings) as producer:
            producer.publish(["sent"])
            began = time.perf_counter()
            for future in producer.submit_many("sent", self._many):
                future.result(60)
            return len(self._many) / (time.perf_counter() - began)

    async def send_many_async(self) -> float:
        async with AsyncProducer(self._settings) as producer:
            await producer.publish(["sent"])
            began = time.perf_counter()
            await producer.send_many("sent", self._many)
            return len(self._many) / (time.perf_counter() - began)

    def send(self) -> float:
        with Producer(self._settings) as producer:
            producer.publish(["sent"])
            began = time.perf_counter()
            for body in self._single:
                producer.send("sent", body)
            return len(self._single) / (time.perf_counter() - began)

    async def send_async(self) -> float:
        async with AsyncProducer(self._settings) as producer:
            await producer.publish(["sent"])
            began = time.perf_counter()
            for body in self._single:
                await producer.send("sent", body)
            return len(self._single) / (time.perf_counter() - began)

    def consume(self) -> float:
        with PullConsumer(self._settings, self._group(), ["read"], start_from="earliest") as consumer:
            consumer.wait_ready(_READY_MS)
            began, left = time.perf_counter(), len(self._bodies)
            for delivery in consumer:
                left -= len(delivery.bodies)
                if not left:
                    break
            return len(self._bodies) / (time.perf_counter() - began)

    async def consume_async(self) -> float:
        async with AsyncPullConsumer(self._settings, self._group(), ["read"], start_from="earliest") as consumer:
            await consumer.wait_ready(_READY_MS)
            began, left = time.perf_counter(), len(self._bodies)
            async for delivery in consumer:
                left -= len(delivery.bodies)
                if not left:
                    break
            return len(self._bodies) / (time.perf_counter() - began)

    def messages(self) -> float:
        with PullConsumer(self._settings, self._group(), ["read"], start_from="earliest") as consumer:
            consumer.wait_ready(_READY_MS)
            began = time.perf_counter()
            for number, message in enumerate(consumer.messages(), 1):
                if message.body and number == len(self._bodies):
                    break
            return len(self._bodies) / (time.perf_counter() - began)

    async def messages_async(self) -> float:
        async with AsyncPullConsumer(self._settings, self._group(), ["read"], start_from="earliest") as consumer:
            await consumer.wait_ready(_READY_MS)
            began, number = time.perf_counter(), 0
            async for message in consumer.messages():
                number += 1
                if message.body and number == len(self._bodies):
                    break
            return len(self._bodies) / (time.perf_counter() - began)

    def ranges(self) -> float:
        wanted = self._wanted()
        with RangeReader(self._settings, _GROUPS) as reader:
            began = time.perf_counter()
            found = sum(len(pack or ()) for _, pack in reader.read_all(wanted))
            return found / (time.perf_counter() - began)

    async def ranges_async(self) -> float:
        wanted = self._wanted()
        async with AsyncRangeReader(self._settings, _GROUPS) as reader:
            began = time.perf_counter()
            found = sum([len(pack or ()) async for _, pack in reader.read_all(wanted)])
            return found / (time.perf_counter() - began)

    def fill(self) -> None:
        """What is read."""
        with Producer(self._settings) as producer:
            producer.publish(["read"])
            for future in producer.submit_many("read", self._bodies):
                future.result(60)

    def _group(self) -> str:
        return f"bench_{next(self._numbers)}"

    def _wanted(self) -> list[WantedRange]:
        view = fetch_view(self._settings, ["read"], _GROUPS)
        bounds = Admin(self._settings).store_bounds(["read"])
        ends = {key: bounds[key.store].max_offset for key in view.partitions()}
        return [WantedRange(view.broker_of(key), OffsetRange(key, 0, end)) for key, end in ends.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with embedded_tubemq([TopicConfig("sent", stores=2), TopicConfig("read", stores=4)]) as settings:
        work = _Work(settings, options.messages, options.bytes)
        work.fill()
        print(f"{'messages a second, medians':<32}{'sync':>12}{'asyncio':>12}{'ratio':>8}{'CPU':>8}")
        pairs: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
            "many at once": (work.send_many, lambda: asyncio.run(work.send_many_async())),
            "one by one": (work.send, lambda: asyncio.run(work.send_async())),
            "consume packs": (work.consume, lambda: asyncio.run(work.consume_async())),
            "consume messages": (work.messages, lambda: asyncio.run(work.messages_async())),
            "exact ranges": (work.ranges, lambda: asyncio.run(work.ranges_async())),
        }
        for name, pair in pairs.items():
            rates: tuple[list[float], list[float]] = ([], [])
            cpu: tuple[list[float], list[float]] = ([], [])
            for number in range(options.rounds + 1):
                for side in (0, 1) if number % 2 else (1, 0):
                    began = time.process_time()
                    rates[side].append(pair[side]())
                    cpu[side].append(time.process_time() - began)
            sync, beside = (median(found[1:]) for found in rates)  # the first warms up
            cpu_sync, cpu_beside = (median(found[1:]) for found in cpu)
            print(
                f"{name:<32}{sync:>12,.0f}{beside:>12,.0f}{beside / sync:>8.2f}{cpu_beside / cpu_sync:>8.2f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
