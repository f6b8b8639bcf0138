"""A pattern's topics while they change: messages, topics, stores and partitions come in an order by chance."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, running, stream, wait_for_rows
from tests.waiting import group_page, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SEED = 20
RUNS = 3
STEPS = 12
"""In each run; a third as many while no query runs."""


class Topics:
    """All topics whose names begin with `prefix`."""

    def __init__(self, tube: EmbeddedTubeMQ, prefix: str) -> None:
        self._tube = tube
        self._prefix = prefix
        self._chance = Random(SEED)
        self._feeds: list[Feed] = []
        self._sizes: dict[str, tuple[int, int]] = {}
        """Stores of each topic, and partitions of each store."""
        self.group = f"{prefix}_group"
        self._create()

    def options(self) -> dict[str, str]:
        options = self._feeds[0].options(self.group, startingOffsets="earliest", partitionRefreshInterval="1s")
        del options["subscribe"]
        return {**options, "subscribePattern": f"{self._prefix}_.*", "maxOffsetsPerTrigger": "60"}

    @property
    def sent(self) -> list[bytes]:
        return sorted(body for feed in self._feeds for body in feed.sent)

    def step(self) -> None:
        """Something changes: mostly messages come."""
        change = self._chance.choice([self._send] * 4 + [self._create, self._grow, self._grow])
        change()

    def is_free(self) -> bool:
        return not group_page(self._tube.master_web_port, self.group)

    def _send(self) -> None:
        feed = self._chance.choice(self._feeds)
        some = self._chance.sample(feed.partition_ids, self._chance.randint(1, len(feed.partition_ids)))
        feed.send(self._chance.randint(1, 50), partitions=some)

    def _create(self) -> None:
        name, size = f"{self._prefix}_{len(self._feeds)}", (self._chance.randint(1, 2), self._chance.randint(1, 2))
        feed = Feed.create(self._tube, name, stores=size[0], partitions=size[1])
        feed.label = name
        self._feeds.append(feed)
        self._sizes[name] = size

    def _grow(self) -> None:
        feed = self._chance.choice(self._feeds)
        stores, partitions = self._sizes[feed.topic]
        stores, partitions = self._chance.choice([(stores + 1, partitions), (stores, partitions + 1)])
        self._tube.grow_topic(feed.topic, stores=stores, partitions=partitions)
        self._sizes[feed.topic] = stores, partitions
        feed.partition_ids = [store * 10_000 + number for store in range(stores) for number in range(partitions)]


def test_random_changes_of_topics(delta_spark: SparkSession, tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """A stream reads each message once while topics and partitions are added."""
    topics, sink = Topics(tube, "changing"), Batches()

    def query() -> DataFrame:
        return stream(delta_spark, topics.options())

    for _ in range(RUNS):
        with running(query(), tmp_path / "checkpoint", sink) as one:
            for _ in range(STEPS):
                topics.step()
                one.processAllAvailable()
            wait_for_rows(one, sink, len(topics.sent), f"all messages, with seed {SEED}", seconds=60)
        wait_for(topics.is_free, "the group's nodes to be given back")
        for _ in range(STEPS // 3):
            topics.step()
    with running(query(), tmp_path / "checkpoint", sink) as one:
        wait_for_rows(one, sink, len(topics.sent), f"the rest, with seed {SEED}", seconds=60)
    assert sink.all == topics.sent
