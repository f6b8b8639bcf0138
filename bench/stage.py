"""What a run needs: servers, filled topics, the Spark session. Each starts at its first use and ends with the run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.kafka import KafkaBroker
from bench.kafka_jars import session_confs
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tubeclient import ClientSettings, Producer
from tubeclient.consumers.group import fetch_view
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.positions.offset_lookup import OffsetLookup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.floor import FloorSource

__all__ = ["PARTITIONS", "TASKS", "Stage", "Workload"]

PARTITIONS: Final = 8
"""Of a topic. On TubeMQ each has a store of its own, unless a workload says otherwise."""
TASKS: Final = 2
_LEAST_MESSAGES: Final = 1_024
_AT_ONCE: Final = 1_000
_THERE_SECONDS: Final = 30.0
# The memory cache of a store: TubeMQ's least for small messages, and 32 MB where one message takes 64 KB.
_CACHE_MB: Final = ((10_000, 3), (1 << 20, 32))


def digits(number: int, size: int) -> bytes:
    """The number, with zeros before it."""
    return b"%0*d" % (size, number)


class Workload(NamedTuple):
    """A backlog, the same for all who read it."""

    title: str
    messages: int
    body_bytes: int
    stores: int = PARTITIONS
    """Of TubeMQ's topic, which share its partitions."""
    body: Callable[[int, int], bytes] = digits
    """The body of a message by its number, of that size."""

    def bodies(self) -> Iterator[bytes]:
        return (self.body(number, self.body_bytes) for number in range(self.messages))

    def scaled(self, scale: float) -> Workload:
        """With a fraction of the messages."""
        return self._replace(messages=max(min(self.messages, _LEAST_MESSAGES), round(self.messages * scale)))

    @property
    def topic(self) -> str:
        return f"backlog_{self.body.__name__}_{self.body_bytes}_{self.messages}_{self.stores}"


class Stage:
    """Servers and Spark, with their files below `folder`. A context manager."""

    def __init__(self, folder: Path, scale: float = 1.0) -> None:
        self.folder, self.scale = folder, scale
        self._started = time.monotonic()
        self._stack = ExitStack()
        self._filled: set[tuple[str, str]] = set()
        self._numbers = itertools.count(1)

    def say(self, text: str) -> None:
        """A line of progress with the time since the beginning."""
        seconds = time.monotonic() - self._started
        print(f"[{int(seconds // 60):2d}:{seconds % 60:04.1f}] {text}", flush=True)

    def name(self, kind: str) -> str:
        """A new one, for a group, a topic or a folder."""
        return f"bench_{kind}_{next(self._numbers)}"

    @cached_property
    def tubemq(self) -> ApacheTubeMQ:
        """Apache TubeMQ's master and one broker."""
        self.say("starting Apache TubeMQ")
        return self._stack.enter_context(ApacheTubeMQ(self.folder / "tubemq", brokers=1, heap_mb=2_048))

    @cached_property
    def settings(self) -> ClientSettings:
        """How to reach it."""
        return ClientSettings((self.tubemq.master_address,), master_web_port=self.tubemq.master_web_port)

    @cached_property
    def kafka(self) -> KafkaBroker:
        """Apache Kafka, one process."""
        self.say("starting Apache Kafka")
        return self._stack.enter_context(KafkaBroker(self.folder / "kafka"))

    @cached_property
    def spark(self) -> SparkSession:
        """The one session: two tasks at once, 2 GB of heap."""
        from bench.floor import FloorSource
        from tubeclient_cli.common.session import make_session

        self.say("starting Spark")
        confs = {
            "spark.driver.memory": "2g",
            **session_confs(),
            "spark.sql.shuffle.partitions": str(TASKS),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.local.dir": str(self.folder / "spark"),
            # The last hundred otherwise; a query that is measured has ten a second.
            "spark.sql.streaming.numRecentProgressUpdates": "20000",
        }
        session = make_session("bench", f"local[{TASKS}]", confs)
        self._stack.callback(session.stop)
        floor: type[FloorSource] = FloorSource
        session.dataSource.register(floor)
        return session

    def tube_topic(self, work: Workload) -> str:
        """The topic of TubeMQ that holds the workload; created and filled if it is not there."""
        if ("tubemq", work.topic) not in self._filled:
            self.empty_topic(work.topic, work.body_bytes, work.stores)
            started = time.perf_counter()
            self._send(work)
            self._note_filled("tubemq", work, time.perf_counter() - started)
        return work.topic

    def kafka_topic(self, work: Workload) -> str:
        """The same of Kafka."""
        if ("kafka", work.topic) not in self._filled:
            self.kafka.create_topic(work.topic, PARTITIONS)
            started = time.perf_counter()
            self.kafka.fill(work.topic, PARTITIONS, work.bodies())
            self._note_filled("kafka", work, time.perf_counter() - started)
        return work.topic

    def empty_topic(self, topic: str, body_bytes: int = 100, stores: int = PARTITIONS) -> None:
        """Create an empty topic of TubeMQ."""
        cache_mb = next(cache for limit, cache in _CACHE_MB if body_bytes < limit)
        self.tubemq.create_topics(
            [TopicSpec(topic, PARTITIONS // stores, stores, properties={"memCacheMsgSizeInMB": cache_mb})]
        )

    def _send(self, work: Workload) -> None:
        with Producer(self.settings) as producer:
            producer.publish([work.topic])
            bodies = work.bodies()
            while some := list(itertools.islice(bodies, _AT_ONCE)):
                producer.submit_many(work.topic, some)
            producer.flush()
        self.await_messages(work.topic, work.messages)

    def await_messages(self, topic: str, messages: int) -> None:
        """Until the broker has so many. RuntimeError: it has others after 30 s."""
        deadline = time.monotonic() + _THERE_SECONDS
        while (there := self.count(topic)) != messages:
            if time.monotonic() >= deadline:
                raise RuntimeError(f"topic {topic} holds {there} messages, not {messages}")
            time.sleep(0.1)

    def count(self, topic: str) -> int:
        """How many messages a topic of TubeMQ has, by its broker."""
        lookup = OffsetLookup(self.settings, ["bench_count"])
        try:
            bounds = lookup.bounds(fetch_view(self.settings, [topic], ["bench_count"]))
        finally:
            lookup.close()
        return sum(one.max_offset - one.min_offset for one in bounds.values()) // INDEX_ENTRY_BYTES

    def tube_options(self, topic: str) -> dict[str, str]:
        """The options of a read of the whole topic by a new group; all others have their defaults."""
        return {
            "masterServers": ",".join(self.settings.master_servers),
            "masterWebPort": str(self.settings.master_web_port),
            "consumerGroup": self.name("group"),
            "subscribe": topic,
            "startingOffsets": "earliest",
        }

    def floor_options(self, work: Workload) -> dict[str, str]:
        """The options of a read of as many rows from the floor."""
        return {"rows": str(work.messages), "bodyBytes": str(work.body_bytes), "tasks": str(TASKS)}

    def kafka_options(self, topic: str) -> dict[str, str]:
        """The same for Spark's Kafka source. The broker answers an empty fetch after 10 ms; with the default of 500 ms
        that wait would be most of a small read.
        """
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "kafka.fetch.max.wait.ms": "10",
        }

    def _note_filled(self, server: str, work: Workload, seconds: float) -> None:
        self._filled.add((server, work.topic))
        self.say(f"filled {server} with {work.title}: {work.messages / seconds:,.0f} messages/s")

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
