"""Messages of every kind from Java's producer, and a check that its consumer gets the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.apache.java_client import JavaMessage, JavaProducer, JavaSent

__all__ = ["Sent", "assert_read_back", "send_assorted"]


class Sent(NamedTuple):
    """What was sent with a body, and where it went."""

    where: JavaSent
    attributes: dict[str, str]
    tag: str | None
    time: str | None


def send_assorted(producer: JavaProducer, topic: str, count: int) -> dict[bytes, Sent]:
    """Send `count` messages, all different, with and without attributes, tag and time; return them by body."""
    bodies = [bytes(range(256)), b"\x00", "päyload".encode(), os.urandom(100_000)]
    sent = {}
    for number in range(count):
        body = bodies[number % len(bodies)] + number.to_bytes(4, "big")
        tag, time = (f"tag{number % 3}", "202611211030") if number % 2 else (None, None)
        attributes = {"number": str(number), "text": "grün und gut"} if number % 4 < 3 else {}
        sent[body] = Sent(producer.send(topic, body, attributes or None, tag, time), attributes, tag, time)
    return sent


def assert_read_back(got: Iterable[tuple[str, JavaMessage]], sent: Mapping[bytes, Sent]) -> None:
    """`got` is partition keys and messages, as `JavaBalanceConsumer.drain` returns them."""
    found = list(got)
    assert {message.payload for _, message in found} == set(sent)
    for key, message in found:
        where, attributes, tag, time = sent[message.payload]
        assert (key, message.message_id) == (where.partition_key, where.message_id)
        own = {name: value for name, value in message.attributes.items() if not name.startswith("$")}
        assert (own, message.tag, message.msg_time) == (attributes, tag, time)
