"""Writing to Apache's broker: our producer, Apache's Java producer and a Spark write, each in turn.

Messages have 100 bytes, a tag, a time and an attribute. Only acknowledged ones count. At the end each side's topic is
read, and must hold what its rounds sent.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

from bench.contents import Numbers, check_numbers
from bench.java import ATTRIBUTES, DIFFERENT_BODIES, IN_FLIGHT, TAG, TIME, JavaWriter
from bench.measuring import COST, Results, Side, cpu_seconds, spark_cpu, timed
from bench.stage import TASKS, Stage, Workload
from tubeclient import ClientSettings, Producer

__all__ = ["measure_writing", "write_many", "write_one_by_one"]

_WORK: Final = Workload("100 k x 100 bytes with tag and attribute", 100_000, 100)
_AT_ONCE: Final = 1_000
_ROUND_SECONDS: Final = 300.0
_NAMED: Final[dict[str, Any]] = {"tag": TAG, "time": TIME, "attributes": ATTRIBUTES}


def measure_writing(stage: Stage, results: Results) -> None:
    """Acknowledged messages a second of each side, and the CPU time of the producer's process, or of Spark's."""
    work = _WORK.scaled(stage.scale)
    names = (
        "our Producer, `submit_many`",
        "our Producer, `submit`",
        f"our Spark write, {TASKS} tasks",
        "Java's producer",
    )
    topics = {name: stage.name("written") for name in names}
    for topic in topics.values():
        stage.empty_topic(topic)
    many, one_by_one, of_spark, of_java = topics.values()
    with ExitStack() as stack:
        # Ours has a process of its own, as Java's has.
        ours = stack.enter_context(ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")))
        workdir = stage.folder / stage.name("java")
        java = stack.enter_context(JavaWriter(stage.tubemq.master_address, of_java, workdir))

        def by_us(write: Callable[..., Mapping[str, float]], topic: str) -> Side:
            return lambda: ours.submit(write, stage.settings, topic, work.messages, work.body_bytes).result(
                _ROUND_SECONDS
            )

        def by_spark() -> Mapping[str, float]:
            [(key, value)] = ATTRIBUTES.items()
            frame = stage.spark.range(0, work.messages, 1, TASKS).selectExpr(
                f"cast(lpad(cast(id AS string), {work.body_bytes}, '0') AS binary) AS value",
                f"'{TAG}' AS tag",
                f"map('{key}', '{value}') AS attributes",
                f"to_timestamp('{TIME}', 'yyyyMMddHHmm') AS messageTime",
            )
            options = {"masterServers": stage.tubemq.master_address, "topic": of_spark}
            before = spark_cpu(stage.spark)
            with timed() as writing:  # `save` returns when the brokers have acknowledged all rows
                frame.write.format("tubeclient").options(**options).mode("append").save()
            spent = spark_cpu(stage.spark) - before
            return {"k messages/s": work.messages / writing.seconds / 1000, COST: spent * 1e6 / work.messages}

        sides: list[Side] = [
            by_us(write_many, many),
            by_us(write_one_by_one, one_by_one),
            by_spark,
            lambda: java.write(work.messages, work.body_bytes),
        ]
        results.take_turns(f"writing {_WORK.title}", dict(zip(names, sides, strict=True)))
    rounds = {one.who: len(one.values) for one in results.figures}
    for name, topic in topics.items():
        numbers = [number % DIFFERENT_BODIES if topic == of_java else number for number in range(work.messages)]
        _check(stage, name, topic, Numbers.of(numbers, work.body_bytes, rounds[name]))


def _check(stage: Stage, name: str, topic: str, wanted: Numbers) -> None:
    stage.await_messages(topic, wanted.rows)
    [(key, value)] = ATTRIBUTES.items()
    named = f"messageType = '{TAG}' AND attributes['{key}'] = '{value}'"
    named += f" AND date_format(messageTime, 'yyyyMMddHHmm') = '{TIME}'"
    options = {**stage.tube_options(topic), "columns": "value,messageType,messageTime,attributes"}
    frame = stage.spark.read.format("tubeclient").options(**options).load().where(named)
    try:
        check_numbers(frame, wanted)
    except RuntimeError as error:
        error.add_note(f"in the topic of {name}")
        raise


def write_many(settings: ClientSettings, topic: str, messages: int, body_bytes: int) -> Mapping[str, float]:
    """Send so many messages by `submit_many`, a thousand in each call."""
    return _write(settings, topic, messages, body_bytes, _AT_ONCE)


def write_one_by_one(settings: ClientSettings, topic: str, messages: int, body_bytes: int) -> Mapping[str, float]:
    """Send them by `submit`, one in each call, as Java does."""
    return _write(settings, topic, messages, body_bytes, 1)


def _write(settings: ClientSettings, topic: str, messages: int, body_bytes: int, at_once: int) -> Mapping[str, float]:
    bodies = [b"%0*d" % (body_bytes, number) for number in range(messages)]
    with Producer(settings, max_in_flight=IN_FLIGHT) as producer:
        producer.publish([topic])
        cpu = cpu_seconds(os.getpid())
        with timed() as writing:
            if at_once == 1:
                sent = [producer.submit(topic, body, **_NAMED) for body in bodies]
            else:
                sent = []
                for first in range(0, messages, at_once):
                    sent += producer.submit_many(topic, bodies[first : first + at_once], **_NAMED)
            for one in sent:
                one.result(_ROUND_SECONDS)
        cpu = cpu_seconds(os.getpid()) - cpu
    return {"k messages/s": messages / writing.seconds / 1000, COST: cpu * 1e6 / messages}
