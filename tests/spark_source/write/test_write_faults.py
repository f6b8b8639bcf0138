"""Batch writes on a real Spark while tasks fail and brokers go: at least once, or an error in good time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.spark_source.flaky_writer import BATCH_ROWS
from tests.spark_source.own_session import run_module
from tests.tubeclient.stored import bodies
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOPIC = "rows"
ROW = 28


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig(TOPIC, stores=1, partitions=2)]) as running:
        yield running


def sink(tube: EmbeddedTubeMQ, **more: str) -> dict[str, str]:
    return {"masterServers": tube.master_address, "topic": TOPIC, **more}


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


def write_while(
    spark: SparkSession, tube: EmbeddedTubeMQ, options: dict[str, str], count: int, fault: Callable[[], None]
) -> int:
    """Write `count` rows, and call `fault` when the first of each task have arrived.

    Returns how many had arrived by then; raises what the write raises. A write without an end would be the test's
    time limit.
    """

    def interfere() -> int:
        wait_for(
            lambda: len({int(body) * 2 < count for body in bodies(tube, TOPIC)}) == 2,
            "the first rows of both tasks",
            seconds=60,
        )
        arrived = tube.bounds(TOPIC).max_offset // ROW
        fault()
        return arrived

    frame = spark.range(0, count, 1, 2).selectExpr("format_string('%06d', id) AS value")
    with ThreadPoolExecutor(1) as pool:
        interfering = pool.submit(interfere)
        frame.write.format("tubeclient").options(**options).mode("append").save()
        return interfering.result(60)


def test_a_task_that_failed_once_is_repeated_and_loses_nothing(tube: EmbeddedTubeMQ) -> None:
    count = 10_000  # of each half, more than may be on its way at once
    done = run_module("tests.spark_source.flaky_writer", json.dumps(sink(tube)), str(count))
    assert done.returncode == 0, done.stderr[-4000:]
    assert "this attempt was made to fail" in done.stderr
    found = bodies(tube, TOPIC)
    assert sorted(found) == numbered(count)
    # What the attempt that failed had sent is there twice, at most its part without the last batch.
    twice = {body for body, times in found.items() if times > 1}
    assert set(found.values()) == {1, 2}
    assert twice <= set(numbered(count // 2 - BATCH_ROWS))


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_that_stops_for_good_in_mid_write_fails_the_job(
    delta_spark: SparkSession, tube: EmbeddedTubeMQ, clean: bool
) -> None:
    address = tube.broker_addresses[1]
    # The last of the attempts says which: the master leaves a broker that is away out of its list.
    last = rf"\S+ cannot connect to {address}: Connection refused|.* the master lists no partition to write to"
    gave_up = rf"gave up sending to topic rows after \d+ attempts: ({last})"
    with pytest.raises(Exception, match=gave_up):
        write_while(delta_spark, tube, sink(tube, retryLimit="10s"), 400_000, lambda: tube.stop_broker(clean=clean))


def test_a_broker_that_is_restarted_in_mid_write_loses_nothing(delta_spark: SparkSession, tube: EmbeddedTubeMQ) -> None:
    count = 60_000

    def restart() -> None:
        tube.stop_broker()
        tube.start_broker()

    arrived = write_while(delta_spark, tube, sink(tube), count, restart)
    assert 0 < arrived < count
    found: Counter[bytes] = bodies(tube, TOPIC)
    assert sorted(found) == numbered(count)
