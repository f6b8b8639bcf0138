"""A connection that stays open and brings no more answers: it is given up for another one, and costs no message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from embedded_tubemq import ConnectionFault, EmbeddedTubeMQ, NewMessage, TopicConfig
from embedded_tubemq.broker.offsets import Cursor
from tests.tubeclient.stored import bodies
from tubeclient import (
    ClientSettings,
    OffsetRange,
    PartitionKey,
    Producer,
    PullConsumer,
    RangeReader,
    TransportError,
    fetch_view,
    reader_groups_of,
)
from tubeclient.wire.methods import Method

MESSAGES = 3_000
KEY = PartitionKey(1, "single", 0)


@pytest.fixture
def impatient(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> ClientSettings:
    """There are messages in several packs."""
    cluster.load("single", [NewMessage(0, b"%06d" % n + bytes(1_000)) for n in range(MESSAGES)])
    return replace(settings, rpc_timeout_ms=300, retry_limit_ms=10_000)


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("method", [Method.PARTITION_REGISTER, Method.GET_MESSAGES, Method.COMMIT_OFFSET])
def test_a_consumer_has_each_message_once(
    cluster: EmbeddedTubeMQ, impatient: ClientSettings, method: Method, nth: int, prefetch: int
) -> None:
    """What it confirmed without being told so was confirmed, and does not come again."""
    cluster.broker_faults(1).break_connection(method, ConnectionFault.FALL_SILENT, nth=nth)
    got: list[int] = []
    with PullConsumer(
        impatient, "etl", ["single"], source_count=1, node_id=0, start_from="earliest", prefetch=prefetch
    ) as consumer:
        while len(got) < MESSAGES:
            delivery = consumer.get(timeout_ms=20_000)
            assert delivery is not None
            got += [int(body[:6]) for body in delivery.bodies]
            try:
                consumer.confirm(delivery)
            except TransportError:
                assert method is Method.COMMIT_OFFSET
        assert got == list(range(MESSAGES))
    cursor = Cursor("etl", "single", 0)
    assert cluster.inspect(lambda broker: broker.offsets.committed(cursor)) == 28 * MESSAGES


@pytest.mark.parametrize("method", [Method.PARTITION_REGISTER, Method.GET_MESSAGES, Method.COMMIT_OFFSET])
def test_a_range_is_read_to_its_end(cluster: EmbeddedTubeMQ, impatient: ClientSettings, method: Method) -> None:
    groups = reader_groups_of("etl")
    broker = fetch_view(impatient, ["single"], groups).brokers[1]
    cluster.broker_faults(1).break_connection(method, ConnectionFault.FALL_SILENT)
    with RangeReader(impatient, groups) as reader:
        packs = list(reader.read(broker, OffsetRange(KEY, 0, 28 * MESSAGES)))
    assert [int(message.body[:6]) for pack in packs for message in pack.messages] == list(range(MESSAGES))


def test_a_producer_sends_to_the_same_broker_again(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("single")]) as cluster:
        limits = ClientSettings(cluster.master_address, rpc_timeout_ms=300, retry_limit_ms=20_000)
        cluster.broker_faults(1).break_connection(Method.SEND_MESSAGE, ConnectionFault.FALL_SILENT, nth=3)
        with Producer(limits) as producer:
            producer.publish(["single"])
            for number in range(10):
                producer.send("single", b"%d" % number)
        assert set(bodies(cluster, "single")) == {b"%d" % number for number in range(10)}
