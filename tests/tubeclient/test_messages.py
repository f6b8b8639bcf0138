"""Messages one by one: what each says of itself, and when its pack is confirmed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from itertools import islice
from typing import Any

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tubeclient import ClientSettings, Delivery, PartitionKey, Producer, PullConsumer, ReceivedMessage
from tubeclient.wire.payload import encode_attributes, encode_payload, java_string_hash

KEY = PartitionKey(1, "single", 0)
COUNT = 1_000
"""Several packs."""


def load(cluster: EmbeddedTubeMQ, numbers: range) -> None:
    cluster.load("single", [NewMessage(0, b"%06d" % number + bytes(3_000)) for number in numbers])


def read(settings: ClientSettings, topics: Any, count: int, **options: Any) -> list[ReceivedMessage]:
    with PullConsumer(settings, "etl", topics, start_from="earliest", **options) as consumer:
        return list(islice(consumer.messages(), count))


def committed(cluster: EmbeddedTubeMQ) -> int | None:
    return cluster.inspect(lambda broker: broker.offsets.committed(Cursor("etl", "single", 0)))


def test_message_fields(settings: ClientSettings) -> None:
    """A message has its origin, body, tag, time, and attributes."""
    with Producer(settings) as producer:
        producer.publish(["single"])
        sent = producer.send("single", b"hello", tag="web", time="202601311259", attributes={"user": "7"})
    [message] = read(settings, ["single"], 1)
    assert (message.partition, message.offset, message.message_id) == (sent.partition, sent.offset, sent.message_id)
    assert (message.body, message.tag, message.time, message.attributes) == (
        b"hello",
        "web",
        "202601311259",
        {"user": "7"},
    )
    assert message.bad_reason is None
    assert message.delivery.bodies == [b"hello"]


def test_offsets_are_there_where_they_can_be_counted(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """Not in the first pack, as long as nothing shows that no message before or in it has expired."""
    load(cluster, range(COUNT))
    found = read(settings, ["single"], COUNT)
    assert [int(message.body[:6]) for message in found] == list(range(COUNT))
    first = len(found[0].delivery)
    assert [message.offset for message in found] == [None] * first + [28 * number for number in range(first, COUNT)]


def test_offsets_after_expiry(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """The known offsets are correct after messages have expired."""
    load(cluster, range(COUNT))
    cluster.expire("single", 28 * 100)
    found = read(settings, ["single"], COUNT - 100)
    known = {int(message.body[:6]): message.offset for message in found if message.offset is not None}
    assert known
    assert known == {number: 28 * number for number in known}


@pytest.mark.parametrize("topics", [["clicks"], {"single": ["web"]}], ids=["shared store", "filter"])
def test_offsets_that_cannot_be_counted_are_unknown(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, topics: Any
) -> None:
    payload, flag = encode_payload(b"x", encode_attributes({}, "web"))
    for topic in topics:
        cluster.load(topic, [NewMessage(0, payload, flag, java_string_hash("web")) for _ in range(10)])
    assert [message.offset for message in read(settings, topics, 10)] == [None] * 10


def fails(_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("leave", [fails, lambda found: found.close()], ids=["error", "break"])
@pytest.mark.parametrize("at_the_last", [False, True])
def test_pack_of_left_loop(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, leave: Callable[[Any], None], at_the_last: bool
) -> None:
    """Even at its last message; the one before is confirmed."""
    load(cluster, range(COUNT))
    packs: list[Delivery] = []
    count = 0
    with PullConsumer(settings, "etl", ["single"], start_from="earliest") as consumer:
        with closing(consumer.messages()) as found, suppress(ZeroDivisionError):  # type: ignore[type-var]
            for message in found:
                if message.delivery not in packs:
                    packs.append(message.delivery)
                    count = 0
                count += 1
                if len(packs) == 2 and count == (len(packs[1]) if at_the_last else 1):
                    leave(found)
        assert (packs[0].settled, packs[1].settled) == (True, False)
    assert committed(cluster) == 28 * len(packs[0]) > 0


def test_confirmation_by_next_message(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """A pack is confirmed when the message after its last one is requested."""
    load(cluster, range(COUNT))
    with PullConsumer(settings, "etl", ["single"], start_from="earliest") as consumer:
        found = consumer.messages()
        message = next(found)
        pack = message.delivery
        for _ in range(len(pack) - 1):
            message = next(found)
        assert message.delivery is pack
        assert not pack.settled
        assert next(found).delivery is not pack
        assert pack.settled
