"""What a task gives of its ranges, without Spark; on the embedded servers."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.store import NewMessage
from spark_source.node_partition import NodePartition
from spark_source.offset_rule import OffsetRule
from spark_source.options import parse_options
from spark_source.task_read import read_node
from tubeclient import BrokerInfo, ClientSettings, DataLoss, PartitionKey, StoreKey, fetch_view, reader_groups_of


def rows(tube: EmbeddedTubeMQ, topic: str, end: int, **more: str) -> list[dict[str, Any]]:
    """Those of [0, `end` messages) of the first partition, which was alone in its store when the batch was planned."""
    settings = ClientSettings((tube.master_address,))
    broker: BrokerInfo = fetch_view(settings, [topic], reader_groups_of("task_read")).brokers[1]
    given = {"masterServers": tube.master_address, "consumerGroup": "task_read", "subscribe": topic, **more}
    key = PartitionKey(1, topic, 0)
    task = NodePartition(0, [(key, 0, end * 28)], {StoreKey(1, topic, 0): OffsetRule.ALWAYS}, (broker,))
    return [row for batch in read_node(parse_options(given), task) for row in batch.to_pylist()]


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_topic_that_grew_since_the_batch_was_planned_has_lost_nothing(
    tube: EmbeddedTubeMQ, strict: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its store's index has entries of the new partition, too."""
    topic = f"grown_{strict}"
    tube.create_topic(TopicConfig(topic, 1, 1))
    tube.load(topic, [NewMessage(0, b"%03d" % number) for number in range(50)])
    tube.grow_topic(topic, partitions=2)
    tube.load(topic, [NewMessage(number % 2, b"%03d" % number) for number in range(50, 100)])
    found = rows(tube, topic, 100, failOnDataLoss=strict)
    assert [row["value"] for row in found] == [b"%03d" % number for number in (*range(50), *range(50, 100, 2))]
    assert "went on without" not in caplog.text


def test_messages_that_are_missing_in_an_index_of_one_partition_are_lost(tube: EmbeddedTubeMQ) -> None:
    tube.create_topic(TopicConfig("holed", 1, 1))
    tube.load("holed", [NewMessage(0, b"%03d" % number) for number in range(100)])
    tube.expire_data("holed", 40 * 28)
    with pytest.raises(DataLoss, match=r"1:holed:0 has \d+ messages in its offsets"):
        rows(tube, "holed", 100)
