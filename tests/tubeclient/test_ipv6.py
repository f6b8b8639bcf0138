"""A cluster at an IPv6 address, from its announcement to messages sent and read."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tubeclient import (
    Admin,
    BrokerInfo,
    ClientSettings,
    OffsetLookup,
    Producer,
    PullConsumer,
    fetch_view,
    reader_groups_of,
)


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_embedded_cluster(tmp_path: Path) -> None:
    """An embedded cluster at an IPv6 address works like any other."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")], host="::1") as cluster:
        assert cluster.master_address.startswith("[::1]:")
        settings = ClientSettings(cluster.master_address, master_web_port=cluster.master_web_port)
        groups = reader_groups_of("etl")
        view = fetch_view(settings, ["clicks"], groups)
        port = int(cluster.broker_addresses[1].removeprefix("[::1]:"))
        assert view.brokers == {1: BrokerInfo(1, "::1", port)}
        with Producer(settings) as producer:
            producer.publish(["clicks"])
            producer.send("clicks", b"one")
        with PullConsumer(settings, "etl", ["clicks"], source_count=1, node_id=0, start_from="earliest") as consumer:
            delivery = consumer.get(timeout_ms=30_000)
            assert delivery is not None
            assert delivery.bodies == [b"one"]
            consumer.confirm(delivery)
        with contextlib.closing(OffsetLookup(settings, groups)) as lookup:
            assert list(lookup.group_positions(view, "etl").values()) == [28]
        assert [bounds.max_offset for bounds in Admin(settings).store_bounds(["clicks"]).values()] == [28]
