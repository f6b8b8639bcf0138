"""Three processes share a group; one of them is stopped in the midst of reading, and continued."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from embedded_tubemq.broker import Broker
from embedded_tubemq.catalogue import TopicConfig
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.offsets import Cursor
from tests.tubeclient.member_process import GROUP, TOPIC, Member, member
from tests.tubeclient.reading import Writer
from tests.waiting import wait_for
from tubeclient import Admin, ClientSettings, PartitionKey, assign

LEASE_MS = 4_000
PARTITIONS = [PartitionKey(broker, TOPIC, number) for broker in (1, 2) for number in (0, 1, 10_000, 10_001)]

Owners = dict[PartitionKey, str]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    """With short leases, of clients at the master and of partitions at the brokers."""
    topics = [TopicConfig(TOPIC, stores=2, partitions=2)]
    with EmbeddedTubeMQ(tmp_path / "tubemq", topics, brokers=2, lease_ms=LEASE_MS) as running:
        yield running


def shares(*members: Member) -> Owners:
    """Who is to own each partition."""
    ids = sorted(each.client_id for each in members)
    return {key: name for name, keys in zip(ids, assign("modulo", PARTITIONS, len(ids)), strict=True) for key in keys}


def owners(cluster: EmbeddedTubeMQ) -> Owners:
    """Who owns each partition, as the brokers have it."""

    def look(broker: Broker) -> Owners:
        found = {
            key: broker.ownership.owner(Cursor(GROUP, TOPIC, key.partition_id))
            for key in PARTITIONS
            if key.broker_id == broker.broker_id
        }
        return {key: reader.client_id for key, reader in found.items() if reader is not None}

    return cluster.inspect(look, broker_id=1) | cluster.inspect(look, broker_id=2)


def owned_by(cluster: EmbeddedTubeMQ, *members: Member) -> Callable[[], bool]:
    return lambda: owners(cluster) == shares(*members)


def in_all(members: list[Member], kind: str, **wanted: str) -> Counter[bytes]:
    """How often each message is in the members' books."""
    return sum((one.bodies(kind, **wanted) for one in members), Counter())


def wait_until_read(writer: Writer, members: list[Member], keys: list[PartitionKey]) -> None:
    """Until the members have confirmed a message of each partition that was not sent yet."""
    new = len(writer.sent)

    def unread() -> list[PartitionKey]:
        return [
            key
            for key in keys
            if not any(int(body) >= new for body in in_all(members, "confirmed", partition=str(key)))
        ]

    wait_for(lambda: not unread(), "what is new in each partition to be read")


@contextmanager
def stopped(one: Member) -> Iterator[None]:
    os.kill(one.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(one.process.pid, signal.SIGCONT)


def test_a_stopped_member_is_stood_in_for_and_gets_its_share_again(cluster: EmbeddedTubeMQ, tmp_path: Path) -> None:
    settings = ClientSettings((cluster.master_address,), master_web_port=cluster.master_web_port)
    admin = Admin(settings)
    with Writer(settings, TOPIC) as writer, ExitStack() as processes:
        members = [processes.enter_context(member(settings, tmp_path / f"book-{number}")) for number in range(3)]
        wait_for(lambda: all(one.client_id for one in members), "three processes to start", seconds=60)
        wait_for(owned_by(cluster, *members), "three to share")
        wait_until_read(writer, members, PARTITIONS)
        victim, others = members[0], members[1:]
        its_keys = [key for key, owner in shares(*members).items() if owner == victim.client_id]
        with stopped(victim):
            wait_for(owned_by(cluster, *others), "the other two to share")
            assert {one.client_id for one in admin.group(GROUP).members} == {one.client_id for one in others}
            wait_until_read(writer, others, its_keys)
        wait_for(owned_by(cluster, *members), "three to share again")
        wait_until_read(writer, [victim], its_keys)
        assert victim.lines("lost")
        writer.stop()
        wait_for(lambda: admin.group_offsets(GROUP).rows_behind == 0, "all messages to be confirmed")
        assert [one.close() for one in members] == [0, 0, 0]
    got, confirmed, refused = (in_all(members, kind) for kind in ("got", "confirmed", "refused"))
    assert set(writer.sent) == set(got), "none is lost"
    assert got == confirmed + refused
    assert max(confirmed.values()) == 1, "what was confirmed came again"
