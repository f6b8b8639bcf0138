"""Topics that come, go, close and are made anew, and those that a pattern finds, in real queries."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.group_page import group_page
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, batch, run_available, running, stream
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_numbers = itertools.count()


class Family:
    """Topics whose names begin alike, and options to read them as one group."""

    def __init__(self, tube: EmbeddedTubeMQ) -> None:
        self.tube = tube
        self.prefix = f"family{next(_numbers)}_"
        self.group = f"{self.prefix}group"

    def feed(self, name: str) -> Feed:
        feed = Feed.create(self.tube, self.prefix + name, stores=1, partitions=1)
        feed.label = name
        return feed

    def options(self, **more: object) -> dict[str, str]:
        given = {"partitionRefreshInterval": "1s", "startingOffsets": "earliest", **more}
        named = Feed(self.tube, "unused", []).options(self.group, **given)
        return {**{name: text for name, text in named.items() if name != "subscribe"}, **self._topics(more)}

    def _topics(self, more: dict[str, object]) -> dict[str, str]:
        if "subscribe" in more:
            return {"subscribe": ",".join(self.prefix + name for name in str(more["subscribe"]).split(","))}
        return {"subscribePattern": f"{self.prefix}[a-z]"}

    def held(self) -> list[str]:
        """The partitions that the group's nodes were assigned, as the master's page shows them."""
        return sorted(itertools.chain(*group_page(self.tube.master_web_port, self.group).values()))


@pytest.fixture
def family(tube: EmbeddedTubeMQ) -> Family:
    return Family(tube)


# Topics by a pattern


def test_topics_that_appear_are_read_from_their_beginning_once(
    delta_spark: SparkSession, family: Family, tmp_path: Path
) -> None:
    """One of them with a filter, which its registration must not name before the topic is there."""
    first, no_match = family.feed("a"), family.feed("not_one_letter")
    missed, _ = first.send(10), no_match.send(10)
    sink = Batches()
    filters = json.dumps({f"{family.prefix}b": ["Aa"]})
    options = family.options(startingOffsets="latest", filters=filters, offsetsTable=tmp_path / "offsets")
    with running(stream(delta_spark, options), tmp_path / "checkpoint", sink) as query:
        wait_for(lambda: query.status["message"] == "Waiting for data to arrive", "a query that has begun")
        second = family.feed("b")
        second_sent = second.send(20, tags=["Aa", "BB"])[::2]
        first_sent = first.send(15)
        expected = sorted(first_sent + second_sent)
        wait_for(lambda: len(sink.all) >= 25 or query.exception(), "the messages of both topics")
        assert query.exception() is None
        wait_for(lambda: len(family.held()) == 2, "the master to be told")
    assert sink.all == expected
    third = family.feed("c")
    third_sent = third.send(5)
    wait_for(lambda: not family.held(), "the group to be free")
    run_available(stream(delta_spark, options), tmp_path / "checkpoint", sink)
    assert sink.all == sorted(expected + third_sent)
    of_batch = batch(delta_spark, family.options()).select("topic").collect()
    assert [sum(row.topic == feed.topic for row in of_batch) for feed in (first, second, third, no_match)] == [
        len(missed) + 15,
        20,
        5,
        0,
    ]


# Topics that go and come again


def test_a_topic_that_was_made_anew_is_an_error_or_is_gone_on_with(
    delta_spark: SparkSession, family: Family, tmp_path: Path
) -> None:
    feed = family.feed("a")
    first = feed.send(60)
    sink = Batches()
    run_available(stream(delta_spark, family.options()), tmp_path / "checkpoint", sink)
    family.tube.delete_topic(feed.topic)
    family.tube.create_topic(TopicConfig(feed.topic, stores=1, partitions=1))
    feed.send(10)
    wait_for(lambda: not family.held(), "the group to be free")
    anew = rf"partition 1:{feed.topic}:0 should be read from 1680, .* ends at 280: .* deleted or created again"
    with pytest.raises(Exception, match=anew):
        run_available(stream(delta_spark, family.options()), tmp_path / "checkpoint", sink)
    wait_for(lambda: not family.held(), "the group to be free")
    lenient = stream(delta_spark, family.options(failOnDataLoss="false"))
    run_available(lenient, tmp_path / "checkpoint", sink)
    assert sink.all == first
    wait_for(lambda: not family.held(), "the group to be free")
    last = feed.send(5)
    run_available(lenient, tmp_path / "checkpoint", sink)
    assert sink.all == sorted(first + last)
