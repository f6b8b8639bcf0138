"""Reading a backlog as fast as possible: the source, its peers, and each broker's ceiling, by turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from bench.embedded_loaded import Backlog, embedded_backlogs
from bench.results import Results, RunSettings
from bench.rounds import Side, add_turns
from bench.spark_reads import kafka_options, timed_read, tube_options
from bench.stage import Stage
from bench.workloads import LAYOUTS, PARTITIONS, Workload, scaled, topic_of
from embedded_tubemq import TopicConfig
from tubeclient import ClientSettings

__all__ = ["measure_throughput"]

_TITLES: Final = {
    "ceiling": "the broker's ceiling: two processes that throw the bytes away",
    "tubeclient": 'Spark, `format("tubeclient")`',
    "java": "Java's ClientBalanceConsumer, without Spark",
    "source": 'Spark, `format("kafka")`, by its defaults',
    "impatient": 'Spark, `format("kafka")`, fetch.max.wait.ms=10',
    "embedded": 'Spark, `format("tubeclient")`, from embedded_tubemq',
}
_FIRST_DRAINS: Final = 6
"""The brokers compile themselves while they are read for the first times."""


def measure_throughput(stage: Stage, results: Results, run: RunSettings, workload: Workload) -> None:
    """Rows a second of all readers of the workload, in both layouts."""
    work = scaled(workload, run.scale)
    topics = dict(zip(LAYOUTS, stage.tube_topics(work, LAYOUTS), strict=True))
    kafka_topic = stage.kafka_topic(work)
    sides: dict[str, Side] = {}
    titles: dict[str, str] = {}

    def add(place: str, title: str, who: str, seconds: Side) -> None:
        sides[f"{work.key}/{place}/{who}"] = lambda: work.messages / seconds()
        titles[f"{work.key}/{place}/{who}"] = f"{workload.title}, {title}: {_TITLES[who]}"

    spark, settings, bootstrap = stage.spark, stage.settings, stage.kafka.bootstrap
    with _embedded(stage, work) as embedded:
        for layout, topic in topics.items():
            of_layout = partial(add, layout.key, f"TubeMQ, {layout.title}")
            of_layout("ceiling", partial(stage.ceiling.drain, topic, work.messages, work.body_bytes))
            of_layout(
                "tubeclient", partial(timed_read, spark, "tubeclient", tube_options(settings, topic), work.messages)
            )
            if work.with_clients:
                of_layout("java", partial(_java_seconds, stage, topic, work.messages))
            if embedded is not None:
                options = tube_options(embedded, topic)
                of_layout("embedded", partial(timed_read, spark, "tubeclient", options, work.messages))
        of_kafka = partial(add, "kafka", f"Kafka, {PARTITIONS} partitions")
        of_kafka("ceiling", partial(_kafka_ceiling_seconds, stage, kafka_topic, work.messages))
        for who, impatient in (("source", False), ("impatient", True)):
            options = kafka_options(bootstrap, kafka_topic, impatient=impatient)
            of_kafka(who, partial(timed_read, spark, "kafka", options, work.messages))
        for _ in range(_FIRST_DRAINS):
            for topic in topics.values():
                stage.ceiling.drain(topic, work.messages, work.body_bytes)
            _kafka_ceiling_seconds(stage, kafka_topic, work.messages)
        add_turns(results, run, sides, titles, "rows/s", stage.say)
    stage.close_java()


def _java_seconds(stage: Stage, topic: str, messages: int) -> float:
    drained = stage.java(topic).drain(stage.group(), messages, confirm_in_local=False)
    if drained.messages != messages:
        raise RuntimeError(f"Java read {drained.messages} of {messages} messages of {topic}")
    return drained.seconds


def _kafka_ceiling_seconds(stage: Stage, topic: str, messages: int) -> float:
    return stage.kafka_ceiling.drain(stage.kafka.bootstrap, topic, PARTITIONS, messages).seconds


@contextmanager
def _embedded(stage: Stage, work: Workload) -> Iterator[ClientSettings | None]:
    """embedded_tubemq in a process of its own with the same messages; None if nobody measures it."""
    if not work.with_clients:
        yield None
        return
    topics = [TopicConfig(topic_of(work, layout), layout.stores, layout.partitions) for layout in LAYOUTS]
    with embedded_backlogs([Backlog(topic, work.messages, work.body_bytes) for topic in topics]) as settings:
        stage.say("embedded_tubemq is filled")
        yield settings
