"""Streams: rates into Delta beside a batch read, the latency of a message, and the time to the first row."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from typing import Final

from bench.java_side import JavaSide
from bench.results import Results, RunSettings
from bench.rounds import Side, add_turns
from bench.senders import kafka_sender, tubemq_sender
from bench.spark_reads import kafka_options, tube_options
from bench.stage import BALANCE_PERIOD_SECONDS, Stage
from bench.streams import StreamRun, available_now, batch_read, first_row, latencies
from bench.workloads import LAYOUTS, PARTITIONS, START, WORKLOADS, scaled
from tests.apache.server import TopicSpec

__all__ = ["measure_first_row", "measure_latency", "measure_streaming"]

_BATCHES: Final = 10
_PULL_STARTS: Final = 5
_LATENCY_SECONDS, _LATENCY_WARM_UP_SECONDS = 10.0, 3.0
_TUBE, _KAFKA = 'Spark, `format("tubeclient")`', 'Spark, `format("kafka")`'
_IMPATIENT: Final = f"{_KAFKA}, fetch.max.wait.ms=10"
_WHO: Final = {"tubeclient": _TUBE, "kafka": f"{_KAFKA}, by its defaults", "kafka_impatient": _IMPATIENT}
_ONE_STORE: Final = LAYOUTS[0]


def measure_streaming(stage: Stage, results: Results, run: RunSettings) -> None:
    """Rows a second of AvailableNow into Delta, in ten batches, beside those of one batch read into Delta."""
    workload = WORKLOADS[0]
    work = scaled(workload, run.scale)
    [topic] = stage.tube_topics(work, [_ONE_STORE])
    kafka_topic = stage.kafka_topic(work)

    def rate(fmt: str, what: Callable[..., StreamRun]) -> float:
        options = (
            tube_options(stage.settings, topic, stage.group())
            if fmt == "tubeclient"
            else kafka_options(stage.kafka.bootstrap, kafka_topic, impatient=True)
        )
        folder = stage.folder / "delta"
        try:
            done = what(stage.spark, fmt, options, folder, work.messages)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if what is available_now and done.batches != _BATCHES:
            raise RuntimeError(f"{fmt} made {done.batches} batches, not {_BATCHES}")
        return done.rate

    sides = {
        "streaming/tubeclient": partial(rate, "tubeclient", available_now),
        "streaming/batch_tubeclient": partial(rate, "tubeclient", batch_read),
        "streaming/kafka": partial(rate, "kafka", available_now),
        "streaming/batch_kafka": partial(rate, "kafka", batch_read),
    }
    titles = {
        "streaming/tubeclient": f"AvailableNow into Delta, {_BATCHES} batches: {_TUBE}",
        "streaming/batch_tubeclient": f"a batch read into Delta: {_TUBE}",
        "streaming/kafka": f"AvailableNow into Delta, {_BATCHES} batches: {_IMPATIENT}",
        "streaming/batch_kafka": f"a batch read into Delta: {_IMPATIENT}",
    }
    titled = {key: f"{workload.title}, {title}" for key, title in titles.items()}
    add_turns(results, run, sides, titled, "rows/s", stage.say)


def measure_latency(stage: Stage, results: Results, run: RunSettings) -> None:
    """Milliseconds from handing a message to a producer until its row is in the sink: the median of each round."""
    rounds = run.warm_ups + run.rounds
    names = [f"latency_{number}" for number in range(rounds)]
    stage.tubemq.create_topics([TopicSpec(name, PARTITIONS) for name in names])
    of_kafkas = [*names, *(f"{name}_impatient" for name in names)]
    for name in of_kafkas:
        stage.kafka.create_topic(name, PARTITIONS)
    tube_names, kafka_names = iter(names), iter(of_kafkas)

    def middle_ms(fmt: str, options: Mapping[str, str], send: Callable[[bytes], None]) -> float:
        seconds = latencies(
            stage.spark, fmt, options, send, seconds=_LATENCY_SECONDS, warm_up_seconds=_LATENCY_WARM_UP_SECONDS
        )
        return median(seconds) * 1000

    def of_tube() -> float:
        topic = next(tube_names)
        with tubemq_sender(stage.settings, topic) as send:
            return middle_ms("tubeclient", tube_options(stage.settings, topic, stage.group()), send)

    def of_kafka(impatient: bool) -> float:
        topic = next(kafka_names)
        with kafka_sender(stage.kafka.bootstrap, topic) as send:
            return middle_ms("kafka", kafka_options(stage.kafka.bootstrap, topic, impatient=impatient), send)

    sides: dict[str, Side] = {
        "latency/tubeclient": of_tube,
        "latency/kafka": partial(of_kafka, False),
        "latency/kafka_impatient": partial(of_kafka, True),
    }
    titles = {key: f"latency, trigger of 100 ms, median of a round: {_WHO[key.partition('/')[2]]}" for key in sides}
    add_turns(results, run, sides, titles, "milliseconds", stage.say)


def measure_first_row(stage: Stage, results: Results, run: RunSettings) -> None:
    """Seconds from `start()` to the first row, and those of Java's PullMessageConsumer to its first message."""
    [topic] = stage.tube_topics(START, [_ONE_STORE])
    kafka_topic = stage.kafka_topic(START)

    def of_tube() -> float:
        return first_row(stage.spark, "tubeclient", tube_options(stage.settings, topic, stage.group())).seconds

    def of_kafka(impatient: bool) -> float:
        options = kafka_options(stage.kafka.bootstrap, kafka_topic, impatient=impatient)
        return first_row(stage.spark, "kafka", options).seconds

    sides: dict[str, Side] = {
        "first_row/tubeclient": of_tube,
        "first_row/kafka": partial(of_kafka, False),
        "first_row/kafka_impatient": partial(of_kafka, True),
    }
    titles = {key: f"from start() to the first row: {_WHO[key.partition('/')[2]]}" for key in sides}
    add_turns(results, run, sides, titles, "seconds", stage.say)
    stage.say(f"starting {_PULL_STARTS} of Java's pull consumers over {BALANCE_PERIOD_SECONDS} s, and waiting for them")
    results.add(
        "first_row/java_pull",
        "from start to the first message: Java's PullMessageConsumer, server-side balance each "
        f"{BALANCE_PERIOD_SECONDS} s",
        "seconds",
        _java_pull_starts(stage, stage.java(topic)),
    )
    stage.close_java()


def _java_pull_starts(stage: Stage, java: JavaSide) -> list[float]:
    """Started at even distances over one balance period, and awaited together: they only wait for the master."""
    with ThreadPoolExecutor(_PULL_STARTS) as threads:
        waits = []
        for _ in range(_PULL_STARTS):
            waits.append(threads.submit(java.first_by_pull_consumer, stage.group()))
            time.sleep(BALANCE_PERIOD_SECONDS / _PULL_STARTS)
        return [wait.result() for wait in waits]
