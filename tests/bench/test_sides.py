"""What the sides read and write is the same, and is counted. How fast anything was is no matter here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from bench.java import ATTRIBUTES, TAG, TIME, JavaReader, JavaWriter
from bench.kafka import KafkaBroker
from bench.stage import Stage, Workload
from bench.writing import write_many, write_one_by_one
from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tubeclient import ClientBalanceConsumer, ClientSettings

pytestmark = pytest.mark.apache

TOPIC = "written"
MESSAGES, BODY_BYTES = 1_000, 100


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[ClientSettings]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig(TOPIC, 1, 2)]) as tube:
        yield ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)


def read(settings: ClientSettings, count: int) -> Iterator[tuple[object, ...]]:
    left = count
    with ClientBalanceConsumer(settings, "reader", [TOPIC], start_from="earliest") as consumer:
        for key in consumer.partitions():
            consumer.connect(key)
        while left > 0:
            delivery = consumer.get(timeout_ms=10_000)
            assert delivery is not None
            for one in delivery:
                yield one.body, one.tag, one.time, tuple(one.attributes.items())
            left -= len(delivery)
            consumer.confirm(delivery)


def test_each_side_sends_the_same_messages_and_java_reads_them(settings: ClientSettings, tmp_path: Path) -> None:
    with JavaWriter(settings.master_servers[0], TOPIC, tmp_path / "java") as writer:
        assert writer.write(MESSAGES, BODY_BYTES)["messages/s"] > 0
    for write in (write_many, write_one_by_one):
        assert write(settings, TOPIC, MESSAGES, BODY_BYTES)["messages/s"] > 0
    bodies = (b"%0*d" % (BODY_BYTES, number) for number in range(MESSAGES))
    wanted = {(body, TAG, TIME, tuple(ATTRIBUTES.items())): 3 for body in bodies}
    assert Counter(read(settings, 3 * MESSAGES)) == wanted
    with JavaReader(settings.master_servers[0], TOPIC, tmp_path / "reader") as reader:
        assert reader.read(lambda kind: f"java_{kind}", 3 * MESSAGES)["rows/s"] > 0


def test_a_topic_of_kafka_is_filled_equally_and_a_message_sent_at_once(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", heap_mb=256) as broker:
        broker.create_topic("peer", 3)
        broker.fill("peer", 3, 1_003, 1_000)
        broker.create_topic("sent", 1)
        with broker.sender("sent") as send:
            send(b"one")
            send(b"two")
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "peer"})
        try:
            consumer.assign([confluent_kafka.TopicPartition("sent", 0, 0)])
            assert [message.value() for message in consumer.consume(2, timeout=30)] == [b"one", b"two"]
        finally:
            consumer.close()


def test_a_backlog_that_is_not_there_whole_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.stage._THERE_SECONDS", 0.2)
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig(TOPIC, 1, 2)]) as tube, Stage(tmp_path) as stage:
        given = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
        monkeypatch.setattr(Stage, "settings", given)
        stage.send(TOPIC, Workload("few", 10, BODY_BYTES))
        assert stage.count(TOPIC) == 10
        with pytest.raises(RuntimeError, match="holds 10 messages, not 11"):
            stage.await_messages(TOPIC, 11)
