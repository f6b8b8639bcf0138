"""What a run needs. Each part starts at its first use and ends with the run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.java_side import JavaSide
from bench.kafka_ceiling import KafkaCeiling
from bench.kafka_fill import fill
from bench.kafka_server import KafkaBroker
from bench.spark_reads import bench_session
from bench.tubemq_ceiling import TubeCeiling
from bench.tubemq_fill import TubeFillers
from bench.workloads import PARTITIONS, Layout, Workload, topic_of
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tubeclient import ClientSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BALANCE_PERIOD_SECONDS", "Stage"]

BALANCE_PERIOD_SECONDS: Final = 60
"""consumerBalancePeriodMs: TubeMQ's default, set because the tests' servers have a shorter one."""
_TUBEMQ_HEAP_MB: Final = 2_048
_KAFKA_HEAP_MB: Final = 1_024
_JAVA_HEAP_MB: Final = 1_024
_LARGE_BODY_BYTES: Final = 10_000


class Stage:
    """Servers, helpers in processes of their own, and Spark; all below `folder`. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = time.monotonic()
        self._stack = ExitStack()
        self._java: dict[str, JavaSide] = {}
        self._filled: set[str] = set()
        self._groups = itertools.count(1)

    def say(self, text: str) -> None:
        """A line of progress with the time since the beginning."""
        seconds = time.monotonic() - self._started
        print(f"[{int(seconds // 60):2d}:{seconds % 60:04.1f}] {text}", flush=True)

    @cached_property
    def tubemq(self) -> ApacheTubeMQ:
        """Apache TubeMQ's master and one broker."""
        self.say("starting Apache TubeMQ")
        period_ms = BALANCE_PERIOD_SECONDS * 1_000
        cluster = ApacheTubeMQ(
            self.folder / "tubemq",
            brokers=1,
            heap_mb=_TUBEMQ_HEAP_MB,
            master_settings={"consumerBalancePeriodMs": period_ms, "firstBalanceDelayAfterStartMs": 30_000},
        )
        return self._stack.enter_context(cluster)

    @cached_property
    def settings(self) -> ClientSettings:
        """How to reach that cluster."""
        return ClientSettings((self.tubemq.master_address,), master_web_port=self.tubemq.master_web_port)

    @cached_property
    def fillers(self) -> TubeFillers:
        return self._stack.enter_context(TubeFillers(self.settings))

    @cached_property
    def ceiling(self) -> TubeCeiling:
        return self._stack.enter_context(TubeCeiling(self.settings))

    @cached_property
    def kafka(self) -> KafkaBroker:
        """Apache Kafka, one process."""
        self.say("starting Apache Kafka")
        return self._stack.enter_context(KafkaBroker(self.folder / "kafka", _KAFKA_HEAP_MB))

    @cached_property
    def kafka_ceiling(self) -> KafkaCeiling:
        return self._stack.enter_context(KafkaCeiling())

    @cached_property
    def spark(self) -> SparkSession:
        """The one session."""
        self.say("starting Spark")
        session = bench_session(self.folder / "spark")
        self._stack.callback(session.stop)
        return session

    def java(self, topic: str) -> JavaSide:
        """Java's consumers of a topic, in a JVM of their own that stays until `close_java`."""
        if topic not in self._java:
            java = JavaSide(self.tubemq.master_address, topic, self.folder / f"java_{topic}", _JAVA_HEAP_MB)
            self._stack.callback(java.close)
            self._java[topic] = java
        return self._java[topic]

    def close_java(self) -> None:
        """End Java's consumers, so that their JVMs do not disturb what comes next."""
        for java in self._java.values():
            java.close()
        self._java.clear()

    def tube_topics(self, workload: Workload, layouts: Sequence[Layout]) -> list[str]:
        """Topics of TubeMQ that hold the workload, one for each layout; created and filled if they are not there.

        RuntimeError: the broker holds another number of messages than were sent.
        """
        missing = [layout for layout in layouts if topic_of(workload, layout) not in self._filled]
        self.tubemq.create_topics([_spec(topic_of(workload, layout), layout, workload) for layout in missing])
        for layout in missing:
            topic = topic_of(workload, layout)
            seconds = self.fillers.fill(topic, workload.messages, workload.body_bytes)
            there = self.ceiling.count(topic)
            if there != workload.messages:
                raise RuntimeError(f"topic {topic} holds {there} messages, {workload.messages} were sent")
            self._filled.add(topic)
            self._say_filled(f"TubeMQ's {topic}", workload, seconds)
        return [topic_of(workload, layout) for layout in layouts]

    def empty_topic(self, topic: str, layout: Layout, workload: Workload) -> None:
        """Create an empty topic of TubeMQ for the workload."""
        self.tubemq.create_topics([_spec(topic, layout, workload)])

    def kafka_topic(self, workload: Workload) -> str:
        """The topic of Kafka that holds the workload; created and filled if it is not there."""
        topic = workload.key
        if topic not in self._filled:
            self.kafka.create_topic(topic, PARTITIONS)
            rate = fill(self.kafka.bootstrap, topic, PARTITIONS, workload.messages, workload.body_bytes)
            self._filled.add(topic)
            self._say_filled(f"Kafka's {topic}", workload, workload.messages / rate)
        return topic

    def group(self) -> str:
        """The name of a new consumer group."""
        return f"bench_{next(self._groups)}"

    def _say_filled(self, what: str, workload: Workload, seconds: float) -> None:
        count, rate = workload.messages, workload.messages / seconds
        self.say(f"filled {what} with {count:,} x {workload.body_bytes} bytes, {rate:,.0f} messages/s")

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _spec(topic: str, layout: Layout, workload: Workload) -> TopicSpec:
    """With small memory caches if there are many stores, and a large one if messages are large."""
    cache_mb = 32 if workload.body_bytes > _LARGE_BODY_BYTES else (2 if layout.stores > PARTITIONS else 3)
    return TopicSpec(topic, layout.partitions, layout.stores, properties={"memCacheMsgSizeInMB": cache_mb})
