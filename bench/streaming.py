"""Streams of our source, Spark's Kafka source and the floor: until the first row, and how late a row is.

Spark itself says, to the millisecond, when a row is in the sink: the progress of a micro-batch has the beginning of its
trigger and the time of each step (`arrived_ms`). So no callback to Python and no polling is measured.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from bench.contents import Numbers, check_numbers
from bench.floor import EACH_NS
from bench.measuring import Results, Side
from bench.stage import PARTITIONS, Stage, Workload
from tubeclient import Producer

__all__ = ["arrivals", "arrived_ms", "measure_first_row", "measure_latency"]

_START: Final = Workload("8 000 x 100 bytes", 8_000, 100)
_ROW_SECONDS: Final = 60.0
_COUNTED_SECONDS, _WARM_UP_SECONDS = 5.0, 2.0
_SEND_EACH: Final = 0.05
_OURS, _KAFKA, _FLOOR = "our source", "Spark's Kafka source", "the floor, a source of ten lines"
Send = Callable[[bytes], object]


def measure_first_row(stage: Stage, results: Results) -> None:
    """Seconds from `start()` of a new query to its first batch in the sink."""
    topic, kafka_topic = stage.tube_topic(_START), stage.kafka_topic(_START)

    def side(source: str, options: Callable[[], Mapping[str, str]]) -> Side:
        def measure() -> Mapping[str, float]:
            stream = stage.spark.readStream.format(source).options(**options()).load().select("value")
            started_ms = time.time() * 1000
            with _memory_query(stage, stream) as query:
                deadline = time.monotonic() + _ROW_SECONDS
                while not (reported := [one for one in query.recentProgress if one["numInputRows"] > 0]):
                    _check(query, deadline)
                rows = stage.spark.table(query.name)
                if source == "floor":
                    _check_ticks(_bodies(rows))
                else:
                    check_numbers(rows, Numbers.of(range(_START.messages), _START.body_bytes))
            return {"seconds": (arrived_ms(reported[0]) - started_ms) / 1000}

        return measure

    sides = {
        _OURS: side("tubeclient", lambda: stage.tube_options(topic)),
        _KAFKA: side("kafka", lambda: stage.kafka_options(kafka_topic)),
        _FLOOR: side("floor", dict),
    }
    results.take_turns("from start() to the first row", sides)


def measure_latency(stage: Stage, results: Results) -> None:
    """Milliseconds from handing a message to a producer until its row is in the sink; the median of each round.

    The trigger is 100 ms. Messages are sent at random moments, 20 a second, so that they fall on all phases of it.
    """

    def of_tube() -> Mapping[str, float]:
        topic = stage.name("latency")
        stage.empty_topic(topic)
        with Producer(stage.settings) as producer:
            producer.publish([topic])
            return _latency(
                stage, "tubeclient", stage.tube_options(topic), lambda body: producer.submit(topic, body).result(30)
            )

    def of_kafka() -> Mapping[str, float]:
        topic = stage.name("latency")
        stage.kafka.create_topic(topic, PARTITIONS)
        with stage.kafka.sender(topic) as send:
            return _latency(stage, "kafka", stage.kafka_options(topic), send)

    sides: dict[str, Side] = {
        _OURS: of_tube,
        _KAFKA: of_kafka,
        _FLOOR: lambda: _latency(stage, "floor", {}, None),
    }
    results.take_turns("from a message's sending to the sink, trigger of 100 ms", sides)


def arrived_ms(progress: Mapping[str, Any]) -> float:
    """When a micro-batch was in the sink, milliseconds since 1970.

    A trigger does one step after the other. After the sink's step Spark only notes that the batch is complete.
    """
    began = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
    durations = progress["durationMs"]
    return began + float(durations["triggerExecution"]) - float(durations.get("commitOffsets", 0))


def arrivals(progresses: Sequence[Mapping[str, Any]]) -> list[float]:
    """For each row, in the order of the batches, when its batch was in the sink."""
    return [arrived_ms(one) for one in progresses for _ in range(one["numInputRows"])]


def _latency(stage: Stage, source: str, options: Mapping[str, str], send: Send | None) -> Mapping[str, float]:
    """Bodies are the times at which they were sent. Without `send` the source makes them itself. RuntimeError: the sink
    does not have each once.
    """
    stream = stage.spark.readStream.format(source).options(**options).load().select("value")
    with _memory_query(stage, stream, trigger_ms=100) as query:
        sent = [_send_now(send)]
        _until_rows(stage, query, sent if send else [])  # the clock counts when a first batch is there
        sent += _send_for(send, _WARM_UP_SECONDS)
        counted_from = time.time_ns()
        sent += _send_for(send, _COUNTED_SECONDS)
        bodies = _until_rows(stage, query, sent if send else [])
        if send is None:
            _check_ticks(bodies)
        elif sorted(bodies) != sorted(sent):
            raise RuntimeError(f"the sink has {len(bodies)} rows, not the {len(sent)} that were sent, or others")
        at = dict(zip(bodies, arrivals(query.recentProgress), strict=False))
    until = counted_from + _COUNTED_SECONDS * 1e9
    found = [at_ms - body / 1e6 for body, at_ms in at.items() if counted_from <= body < until]
    return {"milliseconds": median(found)}


def _send_now(send: Send | None) -> int:
    now = time.time_ns()
    if send is not None:
        send(b"%d" % now)
    return now


def _send_for(send: Send | None, seconds: float) -> list[int]:
    sent: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(random.uniform(0.5, 1.5) * _SEND_EACH)
        sent.append(_send_now(send))
    return sent


def _until_rows(stage: Stage, query: StreamingQuery, sent: Sequence[int]) -> list[int]:
    """All bodies in the sink, in its order, as soon as those in `sent` are there and in the progress."""
    deadline = time.monotonic() + _ROW_SECONDS
    while True:
        bodies = _bodies(stage.spark.table(query.name))
        reported = sum(one["numInputRows"] for one in query.recentProgress)
        if bodies and len(bodies) <= reported and not set(sent).difference(bodies):
            return bodies
        _check(query, deadline)


def _bodies(rows: DataFrame) -> list[int]:
    return [int(bytes(row.value)) for row in rows.collect()]


def _check_ticks(bodies: Sequence[int]) -> None:
    if any(later - earlier != EACH_NS for earlier, later in pairwise(sorted(bodies))):
        raise RuntimeError("the floor's stream lacks a row, or has one twice")


def _check(query: StreamingQuery, deadline: float) -> None:
    """Wait a moment. RuntimeError: the query has ended, or the time is over."""
    if not query.isActive or time.monotonic() >= deadline:
        raise RuntimeError(f"rows are missing: {query.exception() or f'none within {_ROW_SECONDS:.0f} s'}")
    time.sleep(0.05)


@contextmanager
def _memory_query(stage: Stage, stream: DataFrame, trigger_ms: int = 0) -> Iterator[StreamingQuery]:
    name = stage.name("sink")
    writer = stream.writeStream.format("memory").queryName(name).trigger(processingTime=f"{trigger_ms} milliseconds")
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()
        stage.spark.catalog.dropTempView(name)
