"""Exact ranges over real sockets: broken connections, a broker restart, a consumer slower than the lease."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.refusal import ConnectionFault
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.stored import silent
from tests.waiting import wait_for
from tubeclient import (
    BrokerInfo,
    ClientClosed,
    ClientSettings,
    OffsetRange,
    PartitionKey,
    RangeReader,
    fetch_view,
    reader_groups_of,
)
from tubeclient.wire.methods import Method

GROUPS = reader_groups_of("etl")
KEY = PartitionKey(1, "clicks", 1)
COUNT = 3_000


@pytest.fixture
def broker(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> BrokerInfo:
    cluster.load("clicks", [NewMessage(n % 2, b"%06d" % n + bytes(1_000)) for n in range(COUNT)])
    return fetch_view(settings, ["clicks"], GROUPS).brokers[1]


def numbers(reader: RangeReader, broker: BrokerInfo, piece: OffsetRange) -> list[int]:
    return [int(message.body[:6]) for pack in reader.read(broker, piece) for message in pack.messages]


@pytest.mark.parametrize("method", [Method.PARTITION_REGISTER, Method.GET_MESSAGES])
@pytest.mark.parametrize("fault", list(ConnectionFault))
def test_a_broken_connection_changes_nothing(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo, fault: ConnectionFault, method: Method
) -> None:
    cluster.broker_faults(1).break_connection(method, fault, nth=1 if method is Method.PARTITION_REGISTER else 3)
    with RangeReader(settings, GROUPS) as reader:
        assert numbers(reader, broker, span(100, 2_900)) == list(range(101, 2_900, 2))


def test_a_broker_restart_in_mid_range_changes_nothing(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo
) -> None:
    got: list[int] = []
    with RangeReader(settings, GROUPS) as reader:
        for pack in reader.read(broker, span(0, COUNT)):
            if not got:
                cluster.stop_broker(1)
                cluster.start_broker(1)
            got += [int(message.body[:6]) for message in pack.messages]
    assert got == list(range(1, COUNT, 2))


@pytest.mark.parametrize("groups", [GROUPS, GROUPS[:1]])
def test_consumer_slower_than_lease(tmp_path: Path, groups: tuple[str, ...]) -> None:
    """Even if somebody else has the partition meanwhile."""
    with EmbeddedTubeMQ(tmp_path / "short", [TopicConfig("clicks", 1, 2)], lease_ms=500) as cluster:
        settings = ClientSettings((cluster.master_address,))
        cluster.load("clicks", [NewMessage(n % 2, b"%06d" % n + bytes(1_000)) for n in range(COUNT)])
        broker = fetch_view(settings, ["clicks"], GROUPS).brokers[1]
        got: list[int] = []
        with RangeReader(settings, groups) as reader:
            for pack in reader.read(broker, span(0, COUNT)):
                if not got:
                    wait_for(lambda: not is_owned(cluster), "the end of its lease")
                    with RangeReader(settings, groups) as other:
                        assert numbers(other, broker, span(0, 50)) == list(range(1, 50, 2))
                got += [int(message.body[:6]) for message in pack.messages]
    assert got == list(range(1, COUNT, 2))


def test_close_ends_waiting_read(cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo) -> None:
    """While no answer comes, and would not be given up for long."""
    patient = replace(settings, rpc_timeout_ms=600_000, retry_limit_ms=600_000)
    with RangeReader(patient, GROUPS) as reader, ThreadPoolExecutor(1) as thread:
        with silent(cluster) as end:
            reading = thread.submit(numbers, reader, broker, span(0, COUNT))
            time.sleep(0.2)
            assert not reading.done()
            reader.close()
            time.sleep(0.5)  # it ends, and asks the broker to release what it may have registered
            end()
        with pytest.raises(ClientClosed, match="this RangeReader is closed"):
            reading.result(60)
    assert not is_owned(cluster)


def is_owned(cluster: EmbeddedTubeMQ) -> bool:
    """Whether somebody reads the partition under the first reader group."""
    cursor = Cursor(GROUPS[0], KEY.topic, KEY.partition_id)
    return cluster.inspect(lambda machine: machine.ownership.owner(cursor)) is not None


def span(start: int, end: int, partition: int = KEY.partition_id) -> OffsetRange:
    return OffsetRange(PartitionKey(1, "clicks", partition), start * 28, end * 28)
