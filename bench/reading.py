"""Reading a backlog: rows a second, and what they cost. Our source beside Spark's Kafka source, the floor and Java."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from bench.contents import Numbers, check_numbers
from bench.java import JavaReader
from bench.measuring import COST, Results, Side, spark_cpu, timed
from bench.stage import Stage, Workload

__all__ = ["WORKLOADS", "measure_reading"]

WORKLOADS: Final = (
    Workload("1 M x 100 bytes", 1_000_000, 100),
    Workload("200 k x 1 KB", 200_000, 1_024),
    Workload("10 k x 64 KB", 10_000, 65_536),
)


def measure_reading(stage: Stage, results: Results) -> None:
    """Batch reads into Spark's `noop` sink, planning included; Java's consumer confirms each pack, without Spark.

    The CPU time is that of all processes of Spark, or of Java's client. It depends less than rows a second on what else
    the machine does, and says what a reader costs whose brokers are elsewhere.

    What a noop sink gets is gone. So before its rounds each side reads all for a check of what it reads.
    """
    for workload in WORKLOADS:
        work = workload.scaled(stage.scale)
        topic, kafka_topic = stage.tube_topic(work), stage.kafka_topic(work)
        tube = stage.tube_options(topic)
        with JavaReader(stage.tubemq.master_address, topic, stage.folder / stage.name("java")) as java:
            java.check(stage.name, work.messages)
            sides: dict[str, Side] = {
                "our source": _read(stage, "tubeclient", tube, work),
                "our source, `columns=value`": _read(stage, "tubeclient", {**tube, "columns": "value"}, work),
                "Spark's Kafka source": _read(stage, "kafka", stage.kafka_options(kafka_topic), work),
                "the floor, a source of ten lines": _read(stage, "floor", stage.floor_options(work), work),
                "Java's ClientBalanceConsumer": partial(java.read, stage.name, work.messages),
            }
            if workload is WORKLOADS[0]:
                in_one = stage.tube_options(stage.tube_topic(work._replace(stores=1)))
                sides["our source, all partitions in one store"] = _read(stage, "tubeclient", in_one, work)
            results.take_turns(f"reading {workload.title}", sides)


def _read(stage: Stage, source: str, options: Mapping[str, str], work: Workload) -> Side:
    """RuntimeError: the source has other rows than the workload."""
    numbers = [0] * work.messages if source == "floor" else range(work.messages)
    wanted = Numbers.of(numbers, work.body_bytes)
    check_numbers(stage.spark.read.format(source).options(**options).load(), wanted)

    def measure() -> Mapping[str, float]:
        before = spark_cpu(stage.spark)
        with timed() as reading:
            stage.spark.read.format(source).options(**options).load().write.format("noop").mode("overwrite").save()
        spent = spark_cpu(stage.spark) - before
        return {"k rows/s": work.messages / reading.seconds / 1000, COST: spent * 1e6 / work.messages}

    return measure
