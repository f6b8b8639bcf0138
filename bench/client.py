"""Our client beside Apache's Java client, reading from Apache TubeMQ 2.4.0's own broker, in one run.

Throughput: one broker on this machine has a backlog. Each side reads all of it, from the earliest offset, with a new
group, over one connection. It touches each payload (a CRC-32 for each partition) and each id (a sum), and confirms each
pack. The sides take turns, round by round. The first rounds warm up and do not count. Java's ClientBalanceConsumer runs
twice: with its default settings, which confirm each pack by a request as ours does, and with pullConfirmInLocal, where
the next fetch of the partition confirms.

First message: how long a new group takes from `start` to its first message, with all partitions connected. Java's
PullMessageConsumer waits until the master assigns partitions. It is started at several moments of the master's balance
period.

Needs Apache's jars (make setup) and a few minutes. The exit code is 0 if both sides read the same messages, at any
speed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench import our_side
from bench.java_side import JavaSide
from bench.measured import Drained
from bench.report import OURS, differing, first_message_lines, throughput_lines
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tubeclient import ClientSettings, Producer, SendResult

TOPIC = "bench"
JAVA, JAVA_LOCAL = "Java", "Java, pullConfirmInLocal"
OUR_BALANCE, OUR_PULL = "ours: ClientBalanceConsumer", "ours: PullConsumer"
JAVA_BALANCE, JAVA_PULL = "Java: ClientBalanceConsumer", "Java: PullMessageConsumer"

_HEAP_MB = 1_024
_SLICE = 1_000
_IN_FLIGHT = 5_000
_ROUND_SECONDS = 120.0

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 when both sides read the same messages."""
    options = _parser().parse_args(arguments)
    if min(options.messages, options.rounds, options.partitions, options.stores, options.starts) < 1:
        raise SystemExit("--messages, --rounds, --partitions, --stores and --starts must be 1 or more")
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start")
    master_settings = {
        "consumerBalancePeriodMs": options.balance_period_ms,
        "firstBalanceDelayAfterStartMs": min(30_000, options.balance_period_ms),
    }
    with (
        tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as our_process,
        ApacheTubeMQ(Path(folder), brokers=1, heap_mb=_HEAP_MB, master_settings=master_settings) as cluster,
    ):
        cluster.create_topics([TopicSpec(TOPIC, num_partitions=options.partitions, num_stores=options.stores)])
        settings = ClientSettings((cluster.master_address,), master_web_port=cluster.master_web_port)
        _fill(settings, options)
        java = JavaSide(cluster.master_address, TOPIC, Path(folder), _HEAP_MB)
        try:
            run = _Run(options, settings, our_process, java)
            disagreement = run.throughput()
            run.first_messages()
        finally:
            java.close()
    if disagreement:
        print(f"the sides did not read the same messages: {disagreement}", file=sys.stderr)
        return 1
    return 0


class _Run:
    """The measurements of one run, on a cluster that holds the messages."""

    def __init__(
        self, options: argparse.Namespace, settings: ClientSettings, ours: ProcessPoolExecutor, java: JavaSide
    ) -> None:
        self._options = options
        self._settings = settings
        self._ours = ours
        self._java = java
        self._groups = 0

    def throughput(self) -> str | None:
        """Print how fast each side reads. Return what the sides do not agree on."""
        options = self._options
        print(
            f"\nThroughput: {options.messages:,} messages of {options.bytes} bytes, {options.stores} store(s) of "
            f"{options.partitions} partition(s), one broker; each side one connection, JVM heap {_HEAP_MB} MB"
        )
        print(
            "Java's loop runs inside the JVM, put together as a stream of method references: one call over py4j a "
            f"round, {self._java.round_trip_seconds() * 1e6:.0f} µs, is all that the driver adds"
        )
        rounds: list[dict[str, Drained]] = []
        for _ in range(options.warm_ups + options.rounds):
            rounds.append(
                {
                    OURS: self._in_our_process(our_side.drain, options.messages),
                    JAVA: self._java.drain(self._group(), options.messages, confirm_in_local=False),
                    JAVA_LOCAL: self._java.drain(self._group(), options.messages, confirm_in_local=True),
                }
            )
        print(*throughput_lines(rounds, options.warm_ups), sep="\n")
        disagreement = differing(rounds)
        if disagreement is None:
            one = rounds[0][OURS]
            print(f"both sides read {one.messages:,} messages, ids sum {one.ids}, payloads' checksum {one.checksum}")
        return disagreement

    def first_messages(self) -> None:
        """Print how long each kind of consumer takes from `start` to its first message."""
        options = self._options
        print(
            f"\nFirst message of a new group, from start; the master assigns partitions every "
            f"{options.balance_period_ms / 1000:g} s (consumerBalancePeriodMs; TubeMQ's default is 60 s)"
        )
        seconds: dict[str, list[float]] = {OUR_BALANCE: [], OUR_PULL: [], JAVA_BALANCE: [], JAVA_PULL: []}
        for number in range(options.starts + 1):
            times = {
                OUR_BALANCE: self._in_our_process(our_side.first_by_balance_consumer),
                OUR_PULL: self._in_our_process(our_side.first_by_pull_consumer),
                JAVA_BALANCE: self._java.first_by_balance_consumer(self._group()),
            }
            if number > 0:  # the first is a warm-up
                for side, value in times.items():
                    seconds[side].append(value)
        seconds[JAVA_PULL] = self._java_pull_starts()
        print(*first_message_lines(seconds), sep="\n")

    def _java_pull_starts(self) -> list[float]:
        """Java's waits for the master, begun evenly over one balance period and waited for together."""
        count = self._options.pull_starts
        if count == 0:
            return []
        with ThreadPoolExecutor(count) as threads:
            waits: list[Future[float]] = []
            for _ in range(count):
                waits.append(threads.submit(self._java.first_by_pull_consumer, self._group()))
                time.sleep(self._options.balance_period_ms / 1000 / count)
            return [wait.result() for wait in waits]

    def _in_our_process(self, work: Callable[..., T], *arguments: Any) -> T:
        call = partial(work, self._settings, TOPIC, self._group(), *arguments)
        return self._ours.submit(call).result(_ROUND_SECONDS)

    def _group(self) -> str:
        """The name of a new group."""
        self._groups += 1
        return f"bench_{self._groups}"


def _fill(settings: ClientSettings, options: argparse.Namespace) -> None:
    """Send the messages, each with a body of its own."""
    started = time.perf_counter()
    sent: deque[Future[SendResult]] = deque()
    with Producer(settings, max_in_flight=_IN_FLIGHT) as producer:
        producer.publish([TOPIC])
        for first in range(0, options.messages, _SLICE):
            numbers = range(first, min(first + _SLICE, options.messages))
            sent += producer.submit_many(TOPIC, [b"%0*d" % (options.bytes, number) for number in numbers])
            while len(sent) > _IN_FLIGHT:
                sent.popleft().result()
        for answer in sent:
            answer.result()
    rate = options.messages / (time.perf_counter() - started)
    print(f"filled with {options.messages:,} messages by our Producer, {rate:,.0f} messages/s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.client", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    number = partial(parser.add_argument, type=int, metavar="N")
    number("--messages", default=500_000, help="how many the topic is filled with (%(default)s)")
    number("--bytes", default=100, help="length of each message's payload (%(default)s)")
    number("--stores", default=1, help="stores of the topic, which are indexes on the broker (%(default)s: TubeMQ's)")
    number("--partitions", default=8, help="partitions of each store (%(default)s)")
    number("--rounds", default=10, help="counted rounds of throughput (%(default)s)")
    number(
        "--warm-ups",
        default=8,
        help="rounds before them that do not count: Java compiles while it runs, and the broker gets faster for some "
        "twenty readings (%(default)s)",
    )
    number("--starts", default=10, help="counted starts of consumers without the master's help (%(default)s)")
    number("--pull-starts", default=3, help="starts of Java's PullMessageConsumer; 0 leaves it out (%(default)s)")
    number("--balance-period-ms", default=60_000, help="the master's consumerBalancePeriodMs (%(default)s: TubeMQ's)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
