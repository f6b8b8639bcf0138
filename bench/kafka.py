"""Apache Kafka 3.9.1 on loopback: one process that is broker and controller (KRaft). Filled with confluent-kafka."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.kafka_jars import BROKER_JARS
from tests.apache.jvm import POLL_S, JvmProcess, ServerError, accepts, free_ports

__all__ = ["KafkaBroker"]

# Seconds. Alone on two cores formatting takes 1.5 s and a start 3 s; the bounds are for a busy machine.
_FORMAT_TIMEOUT: Final = 60.0
_START_TIMEOUT: Final = 60.0
_STOP_TIMEOUT: Final = 30.0
_TOPIC_TIMEOUT: Final = 30.0
_FLUSH_TIMEOUT: Final = 120.0


class KafkaBroker:
    """A broker with its data below `folder`; between `with` and its end it can be reached at `bootstrap`.

    Settings are Kafka's defaults, with three exceptions: messages never expire, everything has one replica, and a new
    group does not wait for more members. ServerError: it did not start or stop in time, with its last log lines.
    """

    def __init__(self, folder: Path, heap_mb: int = 1_024) -> None:
        port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        self._port = port
        self._data = folder / "data"
        self._properties = folder / "server.properties"
        folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(_properties(port, controller_port, self._data))
        jars = BROKER_JARS.class_path()
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Its id may not begin with a dash, which would be an option.
        format_arguments = ["format", "--cluster-id", "A" + cluster[1:], "--config", str(self._properties)]
        self._format = JvmProcess("format", "kafka.tools.StorageTool", format_arguments, folder, 256, jars=jars)
        self._broker = JvmProcess("kafka", "kafka.Kafka", [str(self._properties)], folder, heap_mb, jars=jars)

    def create_topic(self, name: str, partitions: int) -> None:
        """Returns when clients can use it. ServerError: not within 30 s, or refused."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        [created] = admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=_TOPIC_TIMEOUT).values()
        try:
            created.result(_TOPIC_TIMEOUT)
        except (KafkaException, TimeoutError) as error:
            raise ServerError(f"topic {name} could not be made: {error}\n{self._broker.tail()}") from error
        deadline = time.monotonic() + _TOPIC_TIMEOUT
        while True:
            known = admin.list_topics(name, timeout=_TOPIC_TIMEOUT).topics[name].partitions.values()
            if len(known) == partitions and all(one.leader >= 0 for one in known):
                return
            if time.monotonic() >= deadline:
                raise ServerError(f"topic {name} has no leaders after {_TOPIC_TIMEOUT:.0f} s\n{self._broker.tail()}")
            time.sleep(POLL_S)

    def fill(self, topic: str, partitions: int, bodies: Iterable[bytes]) -> None:
        """Send uncompressed messages with these bodies to a new topic, to its partitions in turn.

        RuntimeError: the broker does not have them all.
        """
        queue = {"queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 1 << 18}
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", **queue})
        messages = 0
        for messages, body in enumerate(bodies, 1):
            while True:
                try:
                    producer.produce(topic, body, partition=messages % partitions)
                    break
                except BufferError:
                    producer.poll(0.05)
        waiting = producer.flush(_FLUSH_TIMEOUT)
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "bench", "enable.auto.commit": False})
        try:
            ends = (
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_TOPIC_TIMEOUT)[1]
                for number in range(partitions)
            )
            there = sum(ends)
        finally:
            consumer.close()
        if waiting or there != messages:
            raise RuntimeError(f"topic {topic} holds {there} messages, {messages} were sent")

    @contextmanager
    def sender(self, topic: str) -> Iterator[Callable[[bytes], None]]:
        """A function that sends a body at once. RuntimeError at the end: not all arrived."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "acks": "all"})
        producer.list_topics(topic, timeout=_TOPIC_TIMEOUT)  # connects now, and not with the first message

        def send(body: bytes) -> None:
            producer.produce(topic, body)
            producer.poll(0)

        yield send
        if waiting := producer.flush(_TOPIC_TIMEOUT):
            raise RuntimeError(f"Kafka did not acknowledge {waiting} messages within {_TOPIC_TIMEOUT:.0f} s")

    def start(self) -> None:
        """Formats the storage and returns when the broker takes requests: about 5 s."""
        try:
            self._format.start()
            deadline = time.monotonic() + _FORMAT_TIMEOUT
            while self._format.running:
                if time.monotonic() >= deadline:
                    raise ServerError(f"formatting took more than {_FORMAT_TIMEOUT:.0f} s\n{self._format.tail()}")
                time.sleep(POLL_S)
            if not (self._data / "meta.properties").is_file():
                raise ServerError(f"the storage was not formatted\n{self._format.tail()}")
            self._broker.start()
            # Its port opens when the controller has let it in.
            self._broker.wait_for("listens", lambda: accepts("127.0.0.1", self._port), _START_TIMEOUT)
        except BaseException:
            self._format.kill()
            self._broker.kill()
            raise

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not ended within 30 s."""
        self._broker.terminate(_STOP_TIMEOUT)

    def __enter__(self) -> KafkaBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _properties(port: int, controller_port: int, data: Path) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "log.retention.ms": -1,
        "log.retention.bytes": -1,
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
