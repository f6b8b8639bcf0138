"""Our producer, run in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from bench.measured import cpu_seconds
from bench.written import ATTRIBUTES, IN_FLIGHT, TAG, TIME, Written, bodies
from tubeclient import ClientSettings, Producer, SendResult

__all__ = ["write_many", "write_one_by_one"]

_SLICE = 1_000
_ANSWER_SECONDS = 60.0

Sent = list[Future[SendResult]]


def write_many(settings: ClientSettings, topic: str, messages: int, body_bytes: int) -> Written:
    """Send so many messages by `submit_many`, a thousand in each call."""

    def send(producer: Producer, each: list[bytes]) -> Sent:
        sent: Sent = []
        for first in range(0, messages, _SLICE):
            sent += producer.submit_many(topic, each[first : first + _SLICE], **_NAMED)
        return sent

    return _timed(settings, topic, messages, body_bytes, send)


def write_one_by_one(settings: ClientSettings, topic: str, messages: int, body_bytes: int) -> Written:
    """Send them by `submit`, one in each call, as Java does."""

    def send(producer: Producer, each: list[bytes]) -> Sent:
        return [producer.submit(topic, body, **_NAMED) for body in each]

    return _timed(settings, topic, messages, body_bytes, send)


_NAMED: dict[str, Any] = {"tag": TAG, "time": TIME, "attributes": ATTRIBUTES}


def _timed(
    settings: ClientSettings, topic: str, messages: int, body_bytes: int, send: Callable[[Producer, list[bytes]], Sent]
) -> Written:
    each = list(bodies(messages, body_bytes))
    with Producer(settings, max_in_flight=IN_FLIGHT) as producer:
        producer.publish([topic])
        cpu, started = cpu_seconds(os.getpid()), time.perf_counter()
        sent = send(producer, each)
        acknowledged = sum(one.exception(_ANSWER_SECONDS) is None for one in sent)
        seconds, cpu = time.perf_counter() - started, cpu_seconds(os.getpid()) - cpu
    return Written(messages, acknowledged, seconds, cpu)
