"""Messages that expire before they are read: an error with what is lost, or a warning, never silence.

On an embedded cluster alone: Apache's brokers drop whole segments, of a gigabyte by default, and never the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.conformance.cluster import EmbeddedCluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of, take
from tubeclient import ClientBalanceConsumer, DataLoss

KEY = partition_of("ageing")


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("ageing")]) as servers:
        yield EmbeddedCluster(servers)


def test_connecting_at_an_expired_offset(tube: EmbeddedCluster, consumer_of: MakeConsumer) -> None:
    offsets = tube.put(KEY, [b"%d" % number for number in range(6)])
    tube.servers.expire("ageing", offsets[4])
    consumer = consumer_of("expired", ["ageing"])
    with pytest.raises(DataLoss, match="1:ageing:0") as caught:
        consumer.connect(KEY, offsets[1])
    assert (caught.value.wanted, caught.value.found) == (offsets[1], offsets[4])
    lenient = consumer_of("expired", ["ageing"], fail_on_data_loss=False)
    assert lenient.connect(KEY, offsets[1]) == offsets[4]
    assert take(lenient).bodies == [b"4", b"5"]


def test_expiry_while_reading_is_raised_once_and_reading_goes_on(
    tube: EmbeddedCluster, consumer_of: MakeConsumer
) -> None:
    consumer = consumer_of("expiring", ["ageing"], prefetch=0)
    consumer.connect(KEY)
    lost_from, found = expire_while_a_pack_is_out(tube, consumer)
    with pytest.raises(DataLoss, match=f"1:ageing:0.*{lost_from}") as caught:
        take(consumer)
    assert (caught.value.wanted, caught.value.found) == (lost_from, found)
    assert take(consumer).start == found


def test_expiry_while_reading_can_be_passed_over(
    tube: EmbeddedCluster, consumer_of: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumer_of("expiring", ["ageing"], prefetch=0, fail_on_data_loss=False)
    consumer.connect(KEY)
    lost_from, found = expire_while_a_pack_is_out(tube, consumer)
    with caplog.at_level(logging.WARNING, "tubeclient.consumers.consumer"):
        assert take(consumer).start == found
    assert f"1:ageing:0[{lost_from}, {found})" in caplog.text


def expire_while_a_pack_is_out(tube: EmbeddedCluster, consumer: ClientBalanceConsumer) -> tuple[int, int]:
    """Let what comes behind a pack expire before it is asked for; returns where that begins and where it ends."""
    offsets = tube.put(KEY, [bytes(300_000)] * 6)
    out = take(consumer)
    assert len(out) == 2
    tube.servers.expire("ageing", offsets[5])
    consumer.confirm(out)
    return offsets[2], offsets[5]
