"""Wrong uses and the text that users see for each, by a real Spark: what `load` can know, `load` refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECRET = "hunter2-hunter2"

READ_OF_LATEST: dict[str, str | None] = {"startingOffsets": "latest"}


def at(**partitions: object) -> str:
    """JSON of offsets; `p0` stands for partition 0 of the feed's topic, whose name is TOPIC here."""
    return json.dumps({f"1:TOPIC:{name[1:]}" if name != "default" else name: to for name, to in partitions.items()})


BY_EITHER_LOAD: list[tuple[dict[str, str | None], str]] = [
    # Names of options, and what has to be there
    ({"sourceCuont": "2"}, r"option sourcecuont is unknown; did you mean sourceCount\?"),
    ({"kafka.bootstrap.servers": "b:9092"}, r"kafka.bootstrap.servers is unknown; did you mean masterServers\?"),
    ({"topic": "t"}, r"option topic applies to writes only; did you mean subscribe\?"),
    ({"checkpointLocation": "/c"}, "option checkpointLocation belongs to writeStream, not to a read"),
    ({"offsetsTableMode": "strict"}, "offsetsTableMode is given without offsetsTable and has no effect"),
    ({"offsetCommitInterval": "1s"}, "offsetCommitInterval is given without offsetsTable and has no effect"),
    ({"offsetsTableMode": "lax"}, "option offsetsTableMode is 'lax'; write one of strict, best_effort"),
    ({"offsetCommitInterval": "10"}, "option offsetCommitInterval is '10'; write a number and a unit"),
    ({"masterServers": None}, r"option masterServers is required; add \.option\("),
    ({"consumerGroup": None}, r"option consumerGroup is required; add \.option\("),
    ({"subscribe": None}, "give exactly one of subscribe .* and assign"),
    ({"assign": '["1:TOPIC:0"]'}, "give exactly one of subscribe .* and assign"),
    ({"subscribePattern": ".*"}, "give exactly one of subscribe .* and assign"),
    # Cluster, group, topics
    ({"masterServers": "host:port"}, "'host:port' in masterServers is not host:port, as in 10.0.0.1:8715"),
    ({"masterServers": " , "}, "masterServers names no master; write host:port"),
    ({"masterWebPort": "70000"}, "masterWebPort is '70000'; write a whole number from 1 to 65535"),
    (
        {"consumerGroup": "my group"},
        "consumerGroup is not usable: 'my group' is not a group name: .*no blanks and none of # @",
    ),
    ({"readerGroups": "TOPIC_group"}, "readerGroups names consumerGroup TOPIC_group; .* name another group"),
    ({"subscribe": "a b"}, "subscribe is not usable: 'a b' is not a topic name: .* no blanks"),
    ({"subscribe": "x" * 65}, "subscribe is not usable: .* is not a topic name: use 1 to 64 characters"),
    ({"subscribe": None, "subscribePattern": "(clicks"}, "which is not a Python regular expression"),
    ({"subscribe": None, "assign": "1:TOPIC:0"}, "assign is '1:TOPIC:0'; write a JSON list of partition keys"),
    ({"subscribe": None, "assign": "[]"}, r"assign is '\[\]'; write a JSON list of partition keys"),
    ({"subscribe": None, "assign": '["1:TOPIC"]'}, "is not a partition key; write brokerId:topic:partitionId"),
    ({"filters": '{"TOPIC": "web"'}, "filters is .*; write JSON from topics to lists of tags"),
    ({"filters": '{"TOPIC": []}'}, "filters has no list of tags for topic 'TOPIC'; omit a topic to read all of it"),
    ({"filters": '{"TOPIC": ["a"], "TOPIC": ["b"]}'}, "filters names 'TOPIC' twice; keep one of the entries"),
    ({"filters": '{"other": ["web"]}'}, "filters names topic other, which is not read"),
    # Numbers, times, words
    ({"sourceCount": "0"}, "sourceCount is '0'; write a whole number from 1 to 10000"),
    ({"sourceCount": "two"}, "sourceCount is 'two'; write a whole number from 1 to 10000"),
    (
        {"assignmentStrategy": "roundrobin"},
        "assignmentStrategy is 'roundrobin'; write one of averagely, averagely_by_circle",
    ),
    ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'; write a whole number from 1 on"),
    ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'; write a number and a unit, such as 500ms"),
    ({"minPartitions": "0"}, "minPartitions is '0'; write a whole number from 1 on"),
    ({"backlogTakeover": "perhaps"}, "backlogTakeover is 'perhaps'; write true or false"),
    ({"failOnDataLoss": "perhaps"}, "failOnDataLoss is 'perhaps'; write true or false"),
    ({"commitOffsetsToBroker": "yes"}, "commitOffsetsToBroker is 'yes'; write true or false"),
    ({"messageTimeZone": "Mars/Base"}, "messageTimeZone is not usable: 'Mars/Base' is not a time zone; give a name"),
    ({"rpcTimeout": "eight"}, "rpcTimeout is 'eight'; write a number and a unit, such as 500ms"),
    ({"storageOption.secret_key": SECRET}, r"storageOption\.\* is given without offsetsTable"),
    # Where to begin
    ({"startingOffsets": "middle"}, "startingOffsets is 'middle'; write earliest, latest, group"),
    ({"startingOffsets": "{"}, "startingOffsets is '{'; write earliest, latest, group, or JSON"),
    ({"startingOffsets": at(p0=27)}, "offset 27 of 1:TOPIC:0 in startingOffsets is not a multiple of 28"),
    ({"startingOffsets": at(p0=-28)}, "offset -28 of 1:TOPIC:0 in startingOffsets is not a multiple of 28"),
    ({"startingOffsets": at(p0="28")}, "offset '28' of 1:TOPIC:0 in startingOffsets is not a whole number"),
    ({"startingOffsets": '{"TOPIC:0": 28}'}, "is not a partition key; write brokerId:topic:partitionId"),
    ({"startingOffsets": '{"1:TOPIC:0": 0, "1:TOPIC:0": 28}'}, "startingOffsets names '1:TOPIC:0' twice; keep one"),
    ({"startingTimestamp": "yesterday"}, "time 'yesterday' of startingTimestamp is not a number of milliseconds"),
    ({"startingOffsetsByTimestampStrategy": "maybe"}, "Strategy is 'maybe'; write one of error, latest"),
    ({"groupFallback": "none"}, "groupFallback is 'none'; write one of earliest, latest, error"),
    # Users and TLS
    ({"authUser": "alice"}, "authUser is given without a password"),
    ({"authPassword": SECRET}, "authPassword is given without authUser"),
    ({"authUser": "a", "authPassword": SECRET, "authPasswordEnv": "P"}, "are given together; give one of them"),
    ({"authUser": "a", "authPasswordFile": "/no/such"}, "authPasswordFile names /no/such, which cannot be read"),
    ({"tls.keyFile": "/no/such"}, "tls.keyFile is given without tls.certificateFile"),
]

BY_ONE_READ: list[tuple[Literal["batch", "stream"], dict[str, str | None], str]] = [
    ("stream", {"endingOffsets": "latest"}, "endingOffsets belongs to batch reads"),
    ("stream", {"endingTimestamp": "1"}, "endingTimestamp belongs to batch reads"),
    ("stream", {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger 9 is more than max"),
    ("batch", READ_OF_LATEST, "startingOffsets must not be latest in a batch read"),
    ("batch", {"startingOffsets": at(p0=-1, default=0)}, "startingOffsets must not be latest in a batch read"),
    ("batch", {"endingOffsets": "earliest"}, "endingOffsets must be latest or offsets"),
    ("batch", {"endingOffsets": "group"}, "endingOffsets must be latest or offsets"),
    ("batch", {"startingOffsets": at(p0=0)}, "startingOffsets has no entry for 1:TOPIC:1"),
    (
        "batch",
        {"startingOffsets": at(p7=0, default="earliest")},
        "startingOffsets names 1:TOPIC:7, which the subscribed",
    ),
    (
        "batch",
        {"startingOffsets": at(default=28_000)},
        "should be read from 28000, but the broker's data ends at 280",
    ),
    ("batch", {"endingOffsets": at(default=28_000)}, "endingOffsets 28000 of partition 1:TOPIC:0 is outside of"),
    ("batch", {"startingOffsets": at(default=56), "endingOffsets": at(default=28)}, "is before its start at 56"),
    ("batch", {"endingTimestamp": "1", "startingTimestamp": "9999999999999"}, "endingTimestamp"),
    ("batch", {"subscribe": "nobody_has_it"}, "nobody_has_it"),
    ("batch", {"subscribe": None, "assign": '["1:TOPIC:7"]'}, "assign names partition 1:TOPIC:7, which the cluster"),
]


def test_there_are_many() -> None:
    assert len(BY_EITHER_LOAD) + len(BY_ONE_READ) >= 60


def run(frame: DataFrame) -> None:
    """Start a query and wait for its end."""
    frame.writeStream.format("noop").start().awaitTermination(60)


def of_topic(feed: Feed, changes: dict[str, str | None]) -> dict[str, str]:
    given: dict[str, Any] = {**feed.options(), **changes}
    return {name: value.replace("TOPIC", feed.topic) for name, value in given.items() if value is not None}


@pytest.mark.parametrize(("changes", "message"), BY_EITHER_LOAD)
def test_load_refuses(delta_spark: SparkSession, feed: Feed, changes: dict[str, str | None], message: str) -> None:
    for load in (batch, stream):
        with pytest.raises(Exception, match=message.replace("TOPIC", feed.topic)) as caught:
            load(delta_spark, of_topic(feed, changes))
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("read", "changes", "message"), BY_ONE_READ)
def test_a_read_refuses(
    delta_spark: SparkSession, feed: Feed, read: str, changes: dict[str, str | None], message: str
) -> None:
    """By the first step that plans it."""
    feed.send(20)
    options = of_topic(feed, changes)
    with pytest.raises(Exception, match=message.replace("TOPIC", feed.topic)):
        batch(delta_spark, options).collect() if read == "batch" else run(stream(delta_spark, options))
