"""An Apache Kafka is started, filled and drained. How fast anything was is no matter here."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from bench.kafka_ceiling import KafkaCeiling
from bench.kafka_fill import fill
from bench.kafka_server import KafkaBroker
from bench.senders import kafka_sender

pytestmark = pytest.mark.apache

TOPIC = "peer"
MESSAGES = 1_003
BODY_BYTES = 20_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), heap_mb=256) as running:
        yield running


def test_a_topic_is_filled_equally_and_drained_whole(broker: KafkaBroker) -> None:
    """Each partition has more than an answer holds, so that offsets go on from answer to answer."""
    broker.create_topic(TOPIC, 3)
    assert fill(broker.bootstrap, TOPIC, 3, MESSAGES, BODY_BYTES) > 0
    with KafkaCeiling() as ceiling:
        drained = ceiling.drain(broker.bootstrap, TOPIC, 3, MESSAGES)
        assert drained.messages == MESSAGES
        assert drained.fetches > 3
        with pytest.raises(RuntimeError, match=f"gave {MESSAGES} messages, not {MESSAGES + 1}"):
            ceiling.drain(broker.bootstrap, TOPIC, 3, MESSAGES + 1)


def test_a_sent_message_is_there_as_it_was_sent(broker: KafkaBroker) -> None:
    broker.create_topic("sent", 1)
    with kafka_sender(broker.bootstrap, "sent") as send:
        send(b"one")
        send(b"two")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "peer"})
    try:
        consumer.assign([confluent_kafka.TopicPartition("sent", 0, 0)])
        found = consumer.consume(2, timeout=30)
        assert [message.value() for message in found] == [b"one", b"two"]
    finally:
        consumer.close()
