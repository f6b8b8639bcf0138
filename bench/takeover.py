"""What backlogTakeover gains if one partition has most of the backlog, and what it costs if all have the same.

Spark's batch reader, `local[2]`, two nodes, noop sink, on embedded_tubemq in a thread of the driver's process, which is
idle meanwhile. With the skewed backlog the broker delays each answer by a fixed time, so that the cores do not limit
two readers. With the even one it does not. Both settings take turns, after one reading of each to warm up. Each reading
has its own reader groups.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tubeclient.wire.payload import encode_attributes, encode_payload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["main"]

_STORES = 8
_LOADED_AT_ONCE = 5_000
_GOAL_SKEWED = 1.6
_GOAL_EVEN = 0.9


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = _parser().parse_args(arguments)
    # Spark's Python workers are to be this very Python, not the first "python3" on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    topics = [TopicConfig(name, stores=_STORES, partitions=1) for name in ("even", "skewed")]
    with tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder, EmbeddedTubeMQ(folder, topics) as tube:
        skewed = options.messages * options.skew // 100
        rest = (options.messages - skewed) // (_STORES - 1)
        _load(tube, "skewed", [skewed, *[rest] * (_STORES - 1)], options.bytes)
        _load(tube, "even", [options.messages // _STORES] * _STORES, options.bytes)
        spark = _session()
        try:
            print(f"{options.messages:,} messages of {options.bytes} bytes in {_STORES} partitions; rows a second")
            tube.broker_faults().answer_delay_ms = options.delay_ms
            _compare(
                spark, tube, "skewed", options.rounds, _GOAL_SKEWED,
                f"{options.skew} % in one partition, answers {options.delay_ms} ms late",
            )  # fmt: skip
            tube.broker_faults().answer_delay_ms = 0
            _compare(spark, tube, "even", options.rounds, _GOAL_EVEN, "as many in each")
        finally:
            spark.stop()
    return 0


def _load(tube: EmbeddedTubeMQ, topic: str, counts: Sequence[int], size: int) -> None:
    payload, flag = encode_payload(b"x" * size, encode_attributes({}, "", "202611211031"))
    for store, count in enumerate(counts):
        message = NewMessage(store * 10_000, payload, flag)
        for begin in range(0, count, _LOADED_AT_ONCE):
            tube.load(topic, [message] * min(_LOADED_AT_ONCE, count - begin))


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    spark: SparkSession = (
        SparkSession.builder.master("local[2]")
        .appName("bench.takeover")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _compare(spark: SparkSession, tube: EmbeddedTubeMQ, topic: str, rounds: int, goal: float, what: str) -> None:
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds + 1):
        for takeover in rates:
            rate = _read(spark, tube, topic, takeover, f"{topic}_{number}_{takeover}")
            if number:
                rates[takeover].append(rate)
    print(f"\n{what}\n{'':<20}{'minimum':>12}{'median':>12}{'maximum':>12}")
    for takeover, found in rates.items():
        name = "with take-over" if takeover else "without"
        print(f"{name:<20}{min(found):>12,.0f}{median(found):>12,.0f}{max(found):>12,.0f}")
    ratio = median(rates[True]) / median(rates[False])
    print(f"ratio of the medians {ratio:.2f}   goal {goal:g}: {'reached' if ratio >= goal else 'missed'}", flush=True)


def _read(spark: SparkSession, tube: EmbeddedTubeMQ, topic: str, takeover: bool, group: str) -> float:
    """Rows a second of one reading of the whole topic."""
    frame = (
        spark.read.format("tubeclient")
        .option("masterServers", tube.master_address)
        .option("masterWebPort", str(tube.master_web_port))
        .option("consumerGroup", group)
        .option("subscribe", topic)
        .option("sourceCount", "2")
        .option("backlogTakeover", str(takeover))
        .load()
    )
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - started
    bounds = [tube.bounds(topic, store_id=store) for store in range(_STORES)]
    return sum(one.max_offset - one.min_offset for one in bounds) / 28 / seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.takeover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=2_000_000, help="in each topic (%(default)s)")
    parser.add_argument("--bytes", type=int, default=100, help="of a message (%(default)s)")
    parser.add_argument("--skew", type=int, default=80, help="per cent of them in one partition (%(default)s)")
    parser.add_argument("--delay-ms", type=int, default=20, help="of each answer in the skewed topic (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="that count (%(default)s)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
