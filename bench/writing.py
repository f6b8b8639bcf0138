"""Writing: our producer, Apache's Java producer and a Spark write, each in turn, to Apache's broker; and what
embedded_tubemq takes from Java's producer.

Messages have 100 bytes, a tag, a time and an attribute. Only acknowledged ones count; the broker's books must show that
they are there.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from bench.embedded_process import embedded_tubemq
from bench.java_writer import JavaWriter
from bench.our_writing import write_many, write_one_by_one
from bench.results import Results, RunSettings
from bench.rounds import Side, take_turns
from bench.stage import Stage
from bench.workloads import LAYOUTS, Workload, scaled
from bench.written import ATTRIBUTES, TAG, TIME, WriteError, Written
from embedded_tubemq import TopicConfig
from tubeclient import ClientSettings
from tubeclient.group import fetch_view
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.offset_lookup import OffsetLookup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["GROUP", "measure_writing"]

GROUP: Final = "writing"
_WORK: Final = Workload("written", "100 k x 100 bytes with tag and attribute", 100_000, 100, True)
_LAYOUT: Final = LAYOUTS[0]
_TOPIC: Final = "written"
_TASKS: Final = 2
_LEAST_WARM_UPS: Final = 3
"""Java, the brokers and Spark compile themselves meanwhile."""
_ROUND_SECONDS: Final = 300.0
_BOOKS_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.1
_WHO: Final = {
    "java": "Apache's Java producer",
    "many": "our Producer, `submit_many`",
    "one_by_one": "our Producer, `submit`",
    "spark": f"Spark, `local[{_TASKS}]`, `df.write`",
    "java_to_embedded": "Apache's Java producer, to embedded_tubemq",
}


def measure_writing(stage: Stage, results: Results, run: RunSettings) -> None:
    """Acknowledged messages a second of each side, and the CPU time of the producers."""
    work = scaled(_WORK, run.scale)
    stage.empty_topic(_TOPIC, _LAYOUT, work)
    size = work.messages, work.body_bytes
    cpu: dict[str, list[float]] = {}
    with ExitStack() as stack:
        ours = stack.enter_context(ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")))
        embedded = stack.enter_context(embedded_tubemq([TopicConfig(_TOPIC, _LAYOUT.stores, _LAYOUT.partitions)]))
        java, to_embedded = (
            stack.enter_context(JavaWriter(settings.master_servers[0], _TOPIC, stage.folder / f"java_{name}"))
            for name, settings in (("writer", stage.settings), ("embedded_writer", embedded))
        )
        frame = _frame(stage.spark, *size)
        writes: dict[str, tuple[ClientSettings, Callable[[], Written]]] = {
            "java": (stage.settings, lambda: java.write(*size)),
            "many": (
                stage.settings,
                lambda: ours.submit(write_many, stage.settings, _TOPIC, *size).result(_ROUND_SECONDS),
            ),
            "one_by_one": (
                stage.settings,
                lambda: ours.submit(write_one_by_one, stage.settings, _TOPIC, *size).result(_ROUND_SECONDS),
            ),
            "spark": (stage.settings, lambda: _write_by_spark(frame, stage.settings, work.messages)),
            "java_to_embedded": (embedded, lambda: to_embedded.write(*size)),
        }

        def side(who: str) -> Side:
            settings, write = writes[who]

            def measure() -> float:
                before = _count(settings)
                done = write()
                cpu.setdefault(who, []).append(done.cpu_seconds * 1e6 / done.messages)
                _check(settings, before, done)
                return done.rate

            return measure

        rates = take_turns(
            {who: side(who) for who in writes},
            warm_ups=max(run.warm_ups, _LEAST_WARM_UPS),
            rounds=run.rounds,
            say=stage.say,
        )
    for who, values in rates.items():
        results.add(f"{GROUP}/{who}", f"writing {_WORK.title}: {_WHO[who]}", "messages/s", values)
    for who in ("java", "many", "one_by_one"):
        title = f"writing {_WORK.title}: {_WHO[who]}, CPU of its process"
        results.add(f"{GROUP}/cpu_{who}", title, "CPU s for a million messages", cpu[who][-run.rounds :])


def _frame(spark: SparkSession, messages: int, body_bytes: int) -> DataFrame:
    [(key, value)] = ATTRIBUTES.items()
    return spark.range(0, messages, 1, _TASKS).selectExpr(
        f"cast(lpad(cast(id AS string), {body_bytes}, '0') AS binary) AS value",
        f"'{TAG}' AS tag",
        f"map('{key}', '{value}') AS attributes",
        f"to_timestamp('{TIME}', 'yyyyMMddHHmm') AS messageTime",
    )


def _write_by_spark(frame: DataFrame, settings: ClientSettings, messages: int) -> Written:
    """`save` returns when the brokers have acknowledged all rows."""
    options = {"masterServers": ",".join(settings.master_servers), "topic": _TOPIC}
    started = time.perf_counter()
    frame.write.format("tubeclient").options(**options).mode("append").save()
    return Written(messages, messages, time.perf_counter() - started, 0.0)


def _check(settings: ClientSettings, before: int, done: Written) -> None:
    """WriteError: some message was refused, or the broker does not have all that it acknowledged."""
    if done.acknowledged != done.messages:
        raise WriteError(f"{done.acknowledged} of {done.messages} messages were acknowledged")
    deadline = time.monotonic() + _BOOKS_SECONDS
    while (there := _count(settings) - before) < done.acknowledged:
        if time.monotonic() >= deadline:
            raise WriteError(f"the broker has {there} of {done.acknowledged} messages that it acknowledged")
        time.sleep(_LOOK_SECONDS)


def _count(settings: ClientSettings) -> int:
    """How many messages the topic has, by its broker's books."""
    lookup = OffsetLookup(settings, ["bench_writing"])
    try:
        bounds = lookup.bounds(fetch_view(settings, [_TOPIC], ["bench_writing"]))
    finally:
        lookup.close()
    return sum(one.max_offset - one.min_offset for one in bounds.values()) // INDEX_ENTRY_BYTES
