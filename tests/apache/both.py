"""Runs a test on two clusters, the embedded one and Apache's, with the same two brokers and topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ, TopicConfig
from tests.apache.java_client import JavaBalanceConsumer
from tests.apache.java_gateway import JavaVM
from tests.apache.server import ApacheTubeMQ
from tests.apache.settings import MODIFY_TOKEN
from tests.waiting import wait_for
from tubeclient import Admin, ClientSettings, GroupOffsets, Producer, UnknownGroup

__all__ = ["Site", "admin", "apache_site", "embedded_site", "java_reader", "offsets_of", "produce", "send_each", "site"]

TOPICS: Final = [TopicConfig("admin_single", stores=2, partitions=1), TopicConfig("admin_shared", partitions=3)]


@dataclass(frozen=True)
class Site:
    """Where a cluster is, and the token of its master."""

    settings: ClientSettings
    token: str

    @property
    def master_web_address(self) -> str:
        return f"127.0.0.1:{self.settings.master_web_port}"


def apache_site(apache: ApacheTubeMQ) -> Site:
    """Apache's cluster of this test run."""
    return Site(ClientSettings((apache.master_address,), master_web_port=apache.master_web_port), MODIFY_TOKEN)


@contextmanager
def embedded_site(folder: Path) -> Iterator[Site]:
    """An embedded cluster in `folder`."""
    with EmbeddedTubeMQ(folder, TOPICS, brokers=2) as tube:
        yield Site(ClientSettings((tube.master_address,), master_web_port=tube.master_web_port), DEFAULT_TOKEN)


@pytest.fixture(params=["embedded", "apache"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "apache":
        yield apache_site(request.getfixturevalue("apache"))
    else:
        with embedded_site(tmp_path / "tube") as embedded:
            yield embedded


@pytest.fixture
def admin(site: Site) -> Admin:
    return Admin(site.settings, modify_token=site.token)


@pytest.fixture
def produce(site: Site) -> Callable[[str, int], None]:
    """`produce("topic", 10)`: at least ten messages into each of its partitions."""
    return lambda topic, per_partition: send_each(site, topic, per_partition)


@pytest.fixture
def java_reader(site: Site, java_vm: JavaVM) -> Iterator[Callable[[str], JavaBalanceConsumer]]:
    """`java_reader("group")`: a Java consumer yet to be started; closed after the test."""
    with ExitStack() as stack:
        yield lambda group: stack.enter_context(
            closing(JavaBalanceConsumer(java_vm, site.settings.master_servers[0], group, heartbeat_ms=500))
        )


def send_each(site: Site, topic: str, per_partition: int) -> None:
    """Send until each partition of the topic has got that many messages."""
    [deployed] = Admin(site.settings).topics([topic])
    lacking = dict.fromkeys(deployed.partitions(), per_partition)
    with Producer(site.settings) as producer:
        producer.publish([topic])
        while any(count > 0 for count in lacking.values()):
            lacking[producer.send(topic, b"body").partition] -= 1


def offsets_of(admin: Admin, group: str, *, positions: int) -> GroupOffsets:
    """The group's offsets, as soon as its brokers tell that many positions."""
    found: list[GroupOffsets] = []

    def told() -> bool:
        try:
            found.append(admin.group_offsets(group))
        except UnknownGroup:
            return False
        return len(found[-1].positions) == positions

    wait_for(told, f"{positions} positions of {group}")
    return found[-1]
