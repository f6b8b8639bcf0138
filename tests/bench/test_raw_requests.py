"""What is sent and read by hand is what the protocol says: on embedded_tubemq, whose answers our client reads too."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.raw_drain import throw_away
from bench.raw_fill import send_all
from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tubeclient import ClientBalanceConsumer, ClientSettings
from tubeclient.group import fetch_view

MESSAGES = 3_001


@pytest.mark.parametrize("body_bytes", [100, 20_000])
@pytest.mark.parametrize(("stores", "partitions"), [(1, 4), (4, 1)])
def test_all_that_was_sent_by_hand_is_read_by_hand_and_by_the_client(
    tmp_path: Path, body_bytes: int, stores: int, partitions: int
) -> None:
    count = MESSAGES if body_bytes == 100 else MESSAGES // 20
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("raw", stores=stores, partitions=partitions)]) as tube:
        settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
        view = fetch_view(settings, ["raw"], ["view"])
        keys = view.partitions()
        address = view.broker_of(keys[0]).address
        send_all(address, keys, 0, count, body_bytes)
        counted = throw_away(address, keys, "raw", parsed=True)
        thrown = throw_away(address, keys, "raw", connections=2)
        assert counted.messages == count
        assert thrown.messages == 0 or body_bytes == 100  # small answers are parsed all the same
        assert min(counted.received_bytes, thrown.received_bytes) > count * body_bytes
        assert _bodies(settings, count) == [b"%0*d" % (body_bytes, number) for number in range(count)]


def _bodies(settings: ClientSettings, count: int) -> list[bytes]:
    found: list[bytes] = []
    with ClientBalanceConsumer(settings, "reader", ["raw"], start_from="earliest") as consumer:
        for partition in consumer.partitions():
            consumer.connect(partition)
        while len(found) < count:
            delivery = consumer.get(timeout_ms=10_000)
            assert delivery is not None
            found += delivery.bodies
            consumer.confirm_async(delivery)
    return sorted(found)
