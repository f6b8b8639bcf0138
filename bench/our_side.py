"""Our side: tubeclient's consumers, run in a process of their own."""

from __future__ import annotations

import os
import time
from zlib import crc32

from bench.measured import Drained, cpu_seconds
from tubeclient import ClientBalanceConsumer, ClientSettings, PullConsumer

__all__ = ["drain", "first_by_balance_consumer", "first_by_pull_consumer"]

_PACK_TIMEOUT_MS = 20_000.0


class NothingToRead(RuntimeError):
    """A message is missing."""


def drain(settings: ClientSettings, topic: str, group: str, messages: int) -> Drained:
    """Read the whole topic, which holds so many messages, under a new group."""
    with ClientBalanceConsumer(settings, group, [topic], start_from="earliest") as consumer:
        _connect_all(consumer)
        left, packs, ids = messages, 0, 0
        checksums = dict.fromkeys(map(str, consumer.registered()), 0)
        cpu, started = cpu_seconds(os.getpid()), time.perf_counter()
        while left > 0:
            delivery = consumer.get(timeout_ms=_PACK_TIMEOUT_MS)
            if delivery is None:
                raise NothingToRead(f"{left} of {messages} messages are missing")
            ids += sum(delivery.message_ids)
            key = str(delivery.partition)
            checksums[key] = crc32(b"".join(delivery.bodies), checksums[key])
            consumer.confirm_async(delivery)
            left -= len(delivery)
            packs += 1
        if not consumer.wait_confirmed(_PACK_TIMEOUT_MS):
            raise NothingToRead("the last confirmations were not answered")
        seconds = time.perf_counter() - started
        cpu = cpu_seconds(os.getpid()) - cpu
        return Drained.of(messages - left, packs, ids, checksums, seconds, cpu)


def first_by_balance_consumer(settings: ClientSettings, topic: str, group: str) -> float:
    """Seconds from `start` of a new group to a first message: ClientBalanceConsumer, connecting all partitions."""
    started = time.perf_counter()
    with ClientBalanceConsumer(settings, group, [topic], start_from="earliest") as consumer:
        _connect_all(consumer)
        delivery = consumer.get(timeout_ms=_PACK_TIMEOUT_MS)
        return _seconds_since(started, None if delivery is None else delivery.bodies[0])


def first_by_pull_consumer(settings: ClientSettings, topic: str, group: str) -> float:
    """Seconds from `start` of a new group to a first message: PullConsumer, which assigns itself its partitions."""
    started = time.perf_counter()
    with PullConsumer(settings, group, [topic], start_from="earliest") as consumer:
        delivery = consumer.get(timeout_ms=_PACK_TIMEOUT_MS)
        return _seconds_since(started, None if delivery is None else delivery.bodies[0])


def _connect_all(consumer: ClientBalanceConsumer) -> None:
    for partition in consumer.partitions():
        consumer.connect(partition)


def _seconds_since(started: float, body: bytes | None) -> float:
    if not body:
        raise NothingToRead("no first message")
    return time.perf_counter() - started
