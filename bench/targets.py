"""The targets as data, judged by the medians of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bench.executor_cpu import ALL_COLUMNS, VALUE_ALONE, WORKLOADS_MEASURED
from bench.executor_cpu import GROUP as EXECUTOR_CPU
from bench.workloads import LAYOUTS

__all__ = ["REASONS", "TARGETS", "Target", "Verdict", "judge"]

Medians = Mapping[str, float]


class Target(NamedTuple):
    """A figure computed from medians, and its goal."""

    name: str
    figure: Callable[[Medians], float]
    """KeyError: something that it needs was not measured."""
    goal: float
    at_least: bool = True
    """False: at most."""


class Verdict(NamedTuple):
    """A target and how it came out."""

    target: Target
    value: float | None
    """None if it was not measured."""

    @property
    def reason(self) -> str:
        """Why it is out of reach, if that is known."""
        return REASONS.get(self.target.name, "")

    @property
    def reached(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.target.goal if self.target.at_least else self.value <= self.target.goal

    @property
    def missed(self) -> bool:
        """Measured, and not reached."""
        return self.value is not None and not self.reached


def judge(medians: Medians) -> list[Verdict]:
    """All targets, in their order."""
    return [Verdict(target, _value(target, medians)) for target in TARGETS]


def _value(target: Target, medians: Medians) -> float | None:
    try:
        return target.figure(medians)
    except KeyError:
        return None


def _of(key: str) -> Callable[[Medians], float]:
    return lambda medians: medians[key]


def _ratio(above: str, below: str) -> Callable[[Medians], float]:
    return lambda medians: medians[above] / medians[below]


def _ratio_of_shares(above: tuple[str, str], below: tuple[str, str]) -> Callable[[Medians], float]:
    """One's share of its ceiling over another's of its own."""
    return lambda medians: (medians[above[0]] / medians[above[1]]) / (medians[below[0]] / medians[below[1]])


def _evenness(*keys: str) -> Callable[[Medians], float]:
    """The lowest over the highest."""
    return lambda medians: min(medians[key] for key in keys) / max(medians[key] for key in keys)


def _throughput() -> list[Target]:
    found: list[Target] = []
    for layout in LAYOUTS:
        for workload, size, ceiling_goal in (
            ("small", "2 M x 100 bytes", 0.85),
            ("medium", "1 KB", 0.9),
            ("large", "64 KB", 0.9),
        ):
            ours = f"{workload}/{layout.key}/tubeclient"
            name = f"share of the broker's ceiling, {size}, {layout.title}"
            found.append(Target(name, _ratio(ours, f"{workload}/{layout.key}/ceiling"), ceiling_goal))
    for layout in LAYOUTS:
        ours, where = f"small/{layout.key}/tubeclient", layout.title
        found += [
            Target(
                f"rows/s over Java's ClientBalanceConsumer, 100 bytes, {where}",
                _ratio(ours, f"small/{layout.key}/java"),
                2.0,
            ),
            Target(
                f"rows/s over Spark's Kafka source, 2 M x 100 bytes, {where}",
                _ratio(ours, "small/kafka/impatient"),
                1.3,
            ),
            Target(
                f"rows/s over Spark's Kafka source, 0.5 M x 100 bytes, {where}",
                _ratio(f"few/{layout.key}/tubeclient", "few/kafka/impatient"),
                1.0,
            ),
        ]
    for layout in LAYOUTS:
        for workload, size in (
            ("small", "2 M x 100 bytes"),
            ("few", "0.5 M x 100 bytes"),
            ("medium", "1 KB"),
            ("large", "64 KB"),
        ):
            tube = (f"{workload}/{layout.key}/tubeclient", f"{workload}/{layout.key}/ceiling")
            kafka = (f"{workload}/kafka/impatient", f"{workload}/kafka/ceiling")
            found.append(
                Target(
                    f"share of its ceiling over the Kafka source's share of Kafka's, {size}, {layout.title}",
                    _ratio_of_shares(tube, kafka),
                    1.0,
                )
            )
    for layout in LAYOUTS:
        found.append(
            Target(
                f"rows/s from embedded_tubemq over from Apache's broker, 100 bytes, {layout.title}",
                _ratio(f"small/{layout.key}/embedded", f"small/{layout.key}/tubeclient"),
                1.3,
            )
        )
    return found


def _executor_cpu() -> list[Target]:
    goals = {"small": {"one_store": 0.6, "eight_stores": 0.5}}
    anywhere = {"medium": 0.7, "large": 0.9}
    return [
        Target(
            f"CPU of executors over Spark's Kafka source: {work.title.partition(' x ')[2]}, {layout.title}, {title}",
            _ratio(
                f"{EXECUTOR_CPU}/{work.key}/{layout.key}/{who}/executors", f"{EXECUTOR_CPU}/{work.key}/kafka/executors"
            ),
            goals.get(work.key, {}).get(layout.key) or anywhere[work.key],
            at_least=False,
        )
        for who, title in ((ALL_COLUMNS, "all nine columns"), (VALUE_ALONE, "`columns=value`"))
        for work in WORKLOADS_MEASURED
        for layout in LAYOUTS
    ]


TARGETS: Final = (
    *_executor_cpu(),
    *_throughput(),
    Target("writing: our Producer over Apache's Java producer", _ratio("writing/many", "writing/java"), 1.0),
    Target("writing: Spark, `local[2]`, over Apache's Java producer", _ratio("writing/spark", "writing/java"), 1.2),
    Target(
        "writing: what embedded_tubemq takes from Apache's Java producer over what Apache's broker takes",
        _ratio("writing/java_to_embedded", "writing/java"),
        1.0,
    ),
    Target("decoding, messages of 100 bytes a second and core, no attributes", _of("decode/plain"), 2_000_000),
    Target("decoding, the same with attributes", _of("decode/attributes"), 800_000),
    Target(
        "decoding, records of 100 bytes a second and core, in InLong packs of 200 with snappy",
        _of("inlong/decode"),
        1_500_000,
    ),
    Target("the same over Apache's InLongMsg in Java, one thread", _ratio("inlong/decode", "inlong/java"), 1),
    Target(
        "records of 100 bytes in InLong packs over raw messages of that size, 8 stores of one partition",
        _ratio("inlong/packs", "inlong/raw"),
        1,
    ),
    Target(
        "streaming into Delta (AvailableNow, 10 batches) over a batch read into Delta",
        _ratio("streaming/tubeclient", "streaming/batch_tubeclient"),
        0.8,
    ),
    Target(
        "latency with a trigger of 100 ms over Spark's Kafka source",
        _ratio("latency/tubeclient", "latency/kafka_impatient"),
        1.0,
        at_least=False,
    ),
    Target(
        "time from start() to the first row over Spark's Kafka source",
        _ratio("first_row/tubeclient", "first_row/kafka_impatient"),
        1.2,
        at_least=False,
    ),
    Target(
        "time from start() to the first row over Java's PullMessageConsumer under server-side balance",
        _ratio("first_row/tubeclient", "first_row/java_pull"),
        0.2,
        at_least=False,
    ),
    Target(
        "slowest over fastest with 8, 32 and 128 partitions, each in its own store",
        _evenness("growth/stores_8/tubeclient", "growth/stores_32/tubeclient", "growth/stores_128/tubeclient"),
        0.7,
    ),
    Target(
        "planning a read of 128 partitions over 16 times that of 8, each in its own store",
        lambda medians: medians["growth/stores_128/planning"] / (16 * medians["growth/stores_8/planning"]),
        1.0,
        at_least=False,
    ),
)

_SHARED_CORES: Final = (
    "The broker, Python and Spark's JVM share two cores. To reach the goal, Python would have to take next to nothing "
    "of them, or less than nothing."
)
_WARM_KAFKA: Final = (
    "Kafka's source is Java code, which gets faster while it runs. With 100 bytes a JVM's first read takes as much CPU "
    "time with either source; the sixth takes a third of that with ours, and less than a fourth with Kafka's. Two "
    "thirds of ours, or more, are Python's: a checksum for each payload, Arrow, and the socket to the JVM."
)
REASONS: Final[Mapping[str, str]] = {
    **{
        target.name: _SHARED_CORES
        for target in TARGETS
        if target.name.startswith(("share of the broker's ceiling", "rows/s over Java's ClientBalanceConsumer"))
    },
    **{
        target.name: _WARM_KAFKA
        for target in TARGETS
        if target.name.startswith(("CPU of executors", "rows/s over Spark's Kafka source"))
    },
    **{
        target.name: (
            "A quarter of it is Spark's: a read of nothing takes as long. A third is the search for two times in eight "
            "partitions, six to nine looks in each: a look is a fetch of a whole pack, and the protocol has no smaller "
            "one."
        )
        for target in TARGETS
        if target.name.startswith("a tenth of")
    },
    "latency with a trigger of 100 ms over Spark's Kafka source": (
        "Each trigger calls the planner's Python process several times, and each task a Python worker. Kafka's source "
        "does both in the JVM."
    ),
    "writing: our Producer over Apache's Java producer": (
        "Java's takes 10 to 13 CPU seconds for a million messages once its JVM has compiled it, and ours 20 to 22: "
        "each message is a request, with a future, a callback and locks of its own in Python."
    ),
    "writing: Spark, `local[2]`, over Apache's Java producer": (
        "Two tasks write, each with a Producer of ours, and share two cores with the broker and Spark's JVM."
    ),
    "writing: what embedded_tubemq takes from Apache's Java producer over what Apache's broker takes": (
        "Each message is a request, which one thread of Python parses, stores and answers in 31 µs."
    ),
    "the same over Apache's InLongMsg in Java, one thread": (
        "A third of the time Python reads the lengths one by one, as each says where the next record begins. A third "
        "unpacks snappy. The rest builds columns, where Java has a list of arrays."
    ),
    "streaming into Delta (AvailableNow, 10 batches) over a batch read into Delta": (
        "Each micro-batch costs half a second or more of Spark's and Delta's own time, with the Kafka source too."
    ),
    "time from start() to the first row over Spark's Kafka source": (
        "Spark starts a Python process for a stream source in Python. A source of ten lines takes nearly as long."
    ),
}
"""By a target's name: why it cannot be reached, as sentences. Where a target is missed, a note below the table."""
