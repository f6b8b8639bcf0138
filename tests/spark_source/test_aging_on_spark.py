"""Messages that expire, and topics that are deleted and made anew, while they are read and loss is accepted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, batch, running, stream
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SEED = 7
STEPS = 30
ENTRY = 28


def test_nothing_is_read_twice_or_made_up_while_messages_expire_and_topics_go(
    delta_spark: SparkSession, tube: EmbeddedTubeMQ, tmp_path: Path
) -> None:
    """What comes once nothing is lost any more is read to the last message."""
    chance, sink = Random(SEED), Batches()
    feeds = [Feed.create(tube, f"aging{number}", stores=1, partitions=1) for number in range(3)]
    for feed in feeds:
        feed.label = feed.topic
    options = feeds[0].options(
        "aging_group",
        failOnDataLoss="false",
        startingOffsets="earliest",
        partitionRefreshInterval="1s",
        maxOffsetsPerTrigger=15,
    )
    options["subscribe"] = ",".join(feed.topic for feed in feeds)
    of_batch = {name: text for name, text in options.items() if name != "maxOffsetsPerTrigger"}
    lost = 0
    with running(stream(delta_spark, options), tmp_path / "checkpoint", sink) as query:
        for number in range(STEPS):
            feed = chance.choice(feeds)
            change = chance.choice(["send", "send", "send", "expire", "expire data", "anew"])
            if change == "send":
                feed.send(chance.randint(1, 60))
            elif change == "anew":
                tube.delete_topic(feed.topic)
                tube.create_topic(TopicConfig(feed.topic, stores=1, partitions=1))
                lost += 1
            else:
                bounds = tube.bounds(feed.topic)
                entries = (bounds.max_offset - bounds.min_offset) // ENTRY
                place = bounds.min_offset + chance.randint(0, entries) * ENTRY
                (tube.expire if change == "expire" else tube.expire_data)(feed.topic, place)
                lost += 1
            if number % 10 == 5:
                rows = [bytes(row.value) for row in batch(delta_spark, of_batch).select("value").collect()]
                assert max(Counter(rows).values(), default=1) == 1
                assert set(rows) <= {body for each in feeds for body in each.sent}
            if chance.random() < 0.5:
                query.processAllAvailable()
        assert lost > 5
        seen = {feed.topic: len(feed.sent) for feed in feeds}

        def gone_on() -> bool:
            """Whether the query has read something sent after the last loss, of each topic."""
            assert query.exception() is None
            for feed in feeds:
                feed.send(1)
            read = set(sink.all)
            return all(read.intersection(feed.sent[seen[feed.topic] :]) for feed in feeds)

        wait_for(gone_on, f"the query to go on after the last loss, with seed {SEED}", seconds=60)
        last = {body for feed in feeds for body in feed.send(20)}
        wait_for(lambda: last <= set(sink.all), f"what comes afterwards, with seed {SEED}", seconds=60)
    assert len(sink.all) == len(set(sink.all)), f"read twice, with seed {SEED}"
    assert set(sink.all) <= {body for feed in feeds for body in feed.sent}
