"""What a row costs an executor: CPU seconds for a million rows, beside Spark's Kafka source, in turns.

Rows a second on cores that the broker shares say little to a user whose brokers stand elsewhere. What they pay for is
the CPU time of Python's workers and of Spark's JVM. It depends less on what else the machine does than rows a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from bench.parties import BROKER, DRAINERS, EXECUTORS, JVM, PYTHON, Cpu, clocks, spent
from bench.results import Results, RunSettings
from bench.rounds import titled_rounds
from bench.spark_reads import kafka_options, timed_read, tube_options
from bench.stage import Stage
from bench.workloads import LAYOUTS, WORKLOADS, Workload, scaled

__all__ = [
    "ALL_COLUMNS",
    "COST_UNIT",
    "DRAIN",
    "GROUP",
    "KAFKA",
    "VALUE_ALONE",
    "WORKLOADS_MEASURED",
    "measure_executor_cpu",
]

GROUP: Final = "executor_cpu"
ALL_COLUMNS, VALUE_ALONE, DRAIN = "all", "value", "drain"
KAFKA: Final = "kafka"
COST_UNIT: Final = "CPU s for a million rows"
WORKLOADS_MEASURED: Final = tuple(work for work in WORKLOADS if work.key != "few")
_PARTS: Final[Mapping[str, str]] = {
    "executors": "executors",
    PYTHON: "Python workers",
    JVM: "Spark's JVM",
    "kernel": "executors, the kernel's share",
    BROKER: "broker",
    DRAINERS: "drainers",
}
_TITLES: Final = {
    ALL_COLUMNS: "our source, all nine columns",
    VALUE_ALONE: "our source, `columns=value`",
    KAFKA: "Spark's Kafka source, fetch.max.wait.ms=10, seven columns",
    DRAIN: "two processes that throw the bytes away",
}
_LEAST_WARM_UPS: Final = 3
"""The brokers and Spark compile themselves meanwhile; what that costs is in no executor's time for long."""

Read = Callable[[], object]


def measure_executor_cpu(stage: Stage, results: Results, run: RunSettings) -> None:
    """CPU seconds for a million rows of each workload, in both layouts, with all columns and with `value` alone."""
    for workload in WORKLOADS_MEASURED:
        _measure(stage, results, run, workload)


def _measure(stage: Stage, results: Results, run: RunSettings, workload: Workload) -> None:
    work = scaled(workload, run.scale)
    sides: dict[str, Read] = {}
    titles: dict[str, str] = {}
    place = f"{GROUP}/{work.key}"
    for layout, topic in zip(LAYOUTS, stage.tube_topics(work, LAYOUTS), strict=True):
        reads: dict[str, Read] = {
            ALL_COLUMNS: _tube_read(stage, topic, work.messages),
            VALUE_ALONE: _tube_read(stage, topic, work.messages, columns="value"),
            DRAIN: partial(stage.ceiling.drain, topic, work.messages, work.body_bytes),
        }
        for who, read in reads.items():
            sides[f"{place}/{layout.key}/{who}"] = read
            titles[f"{place}/{layout.key}/{who}"] = f"{workload.title}, {layout.title}: {_TITLES[who]}"
    of_kafka = kafka_options(stage.kafka.bootstrap, stage.kafka_topic(work), impatient=True)
    sides[f"{place}/{KAFKA}"] = partial(timed_read, stage.spark, "kafka", of_kafka, work.messages)
    titles[f"{place}/{KAFKA}"] = f"{workload.title}: {_TITLES[KAFKA]}"
    for side, rounds in _in_turns(sides, work.messages, run, stage.say).items():
        for part, values in _by_part(rounds).items():
            results.add(f"{side}/{part}", f"{titles[side]}: {_PARTS[part]}", COST_UNIT, values)


def _tube_read(stage: Stage, topic: str, messages: int, **more: str) -> Read:
    options = {**tube_options(stage.settings, topic), **more}
    return partial(timed_read, stage.spark, "tubeclient", options, messages)


def _in_turns(
    sides: Mapping[str, Read], rows: int, run: RunSettings, say: Callable[[str], None]
) -> dict[str, list[dict[str, Cpu]]]:
    """What each party used in each counted round, by sides."""
    found: dict[str, list[dict[str, Cpu]]] = {side: [] for side in sides}
    for title, counts in titled_rounds(max(run.warm_ups, _LEAST_WARM_UPS), run.rounds):
        shown: list[str] = []
        for side, read in sides.items():
            before = clocks()
            read()
            used = spent(before, clocks(), rows)
            shown.append(f"{side.partition('/')[2]} {sum(used[party].total for party in EXECUTORS):.2f}")
            if counts:
                found[side].append(used)
        say(f"{title}: {'; '.join(shown)}")
    return found


def _by_part(rounds: list[dict[str, Cpu]]) -> dict[str, list[float]]:
    """Each part's seconds, round by round; only of the parties that did something."""
    parts = {
        "executors": [sum(used[party].total for party in EXECUTORS) for used in rounds],
        PYTHON: [used[PYTHON].total for used in rounds],
        JVM: [used[JVM].total for used in rounds],
        "kernel": [sum(used[party].system for party in EXECUTORS) for used in rounds],
        BROKER: [used[BROKER].total for used in rounds],
        DRAINERS: [used[DRAINERS].total for used in rounds],
    }
    return {part: values for part, values in parts.items() if any(values)}
