"""The group's own position on Apache's brokers: set with commitOffsetsToBroker, else never touched."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_source.options.given import parse_options
from spark_source.plan.read_task import ReadTask
from spark_source.stream.stream_reader import TubeStreamReader
from tests.apache import fixtures
from tests.apache.java_client import JavaBalanceConsumer
from tests.apache.server import ApacheTubeMQ
from tests.spark_source.queries import Batches, run_available, stream
from tests.waiting import group_page, wait_for
from tubeclient import Admin, ClientSettings, PartitionKey, PartitionPosition, Producer, UnknownGroup, reader_groups_of

pytestmark = [pytest.mark.apache, pytest.mark.spark]

ROW = 28

TASK = """
import pickle, sys
reader, partition = pickle.load(sys.stdin.buffer)
batches = reader.read(partition)
print(next(batches).num_rows, flush=True)
sys.stdin.buffer.read(1)
print(sum(batch.num_rows for batch in batches), flush=True)
"""
"""A Spark task's work in a process of its own, which stops after its first rows until it is told to go on."""


def options(apache: ApacheTubeMQ, topic: str, group: str, **more: object) -> dict[str, str]:
    return fixtures.options(apache, topic, group, **{"startingOffsets": "group:earliest", **more})


@pytest.fixture
def send(producer: Producer) -> Callable[..., list[bytes]]:
    """`send("topic", 10)`: ten new messages; returns their bodies, sorted."""
    sent: list[bytes] = []

    def run(topic: str, count: int, size: int = 0) -> list[bytes]:
        producer.publish([topic])
        bodies = [b"%06d" % number + bytes(size) for number in range(len(sent), len(sent) + count)]
        sent.extend(bodies)
        for future in [producer.submit(topic, body) for body in bodies]:
            future.result(30)
        return bodies

    return run


def test_spark_to_java_and_back(
    apache: ApacheTubeMQ,
    settings: ClientSettings,
    delta_spark: SparkSession,
    send: Callable[..., list[bytes]],
    java_consumer: Callable[..., JavaBalanceConsumer],
    tmp_path: Path,
) -> None:
    """The brokers have never seen the group before, and tell a first position late."""
    topic, group = "apache_position", "position_shared"

    def read_on(checkpoint: str) -> list[bytes]:
        sink = Batches()
        given = options(apache, topic, group, commitOffsetsToBroker=True)
        run_available(stream(delta_spark, given), tmp_path / checkpoint, sink)
        wait_for(lambda: not group_page(apache.master_web_port, group), "the query's nodes to be given back")
        return sink.all

    first = send(topic, 100)
    assert read_on("one") == first
    # At once: whoever joins the group now may rely on it.
    assert Admin(settings).group_offsets(group).rows_behind == 0
    assert read_on("two") == []

    second = send(topic, 50)
    java = java_consumer(group).start({topic: []}, source_count=1, node_id=0)
    for key in java.await_partitions(4):
        java.connect(key)
    assert sorted(message.payload for _, message in java.drain(len(second))) == second
    java.close()
    wait_for(lambda: not group_page(apache.master_web_port, group), "Java's node to be given back")

    third = send(topic, 30)
    assert read_on("three") == third


def test_faults_without_commits_move_no_position(
    apache: ApacheTubeMQ, settings: ClientSettings, send: Callable[..., list[bytes]]
) -> None:
    """A broker that stops cleanly takes all that is on its way to a reader for confirmed."""
    topic, group, key = "apache_untouched", "position_untouched", PartitionKey(1, "apache_untouched", 0)
    admin = Admin(settings)
    count = len(send(topic, 40, size=500_000))  # more than two of the batches that a task makes

    def positions(*groups: str) -> list[PartitionPosition]:
        found: list[PartitionPosition] = []
        for one in groups:
            with contextlib.suppress(UnknownGroup):
                found += admin.group_offsets(one, [topic]).positions
        return found

    admin.set_offsets(group, {key: 3 * ROW})
    wait_for(lambda: positions(group), "the broker to tell the position", seconds=60)
    before = positions(group)
    assert [(one.partition, one.committed, one.in_flight) for one in before] == [(key, 3 * ROW, 0)]

    # One node, so that one task has all there is.
    given = options(apache, topic, group, startingOffsets="earliest", sourceCount=1)
    reader = TubeStreamReader(parse_options(given))
    try:
        start = reader.initialOffset()
        [partition] = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
        assert isinstance(partition, ReadTask)

        with in_mid_range(reader, partition) as (task, _):
            task.kill()
            task.wait(30)
        assert positions(group) == before

        with in_mid_range(reader, partition) as (task, rows):
            apache.stop_broker(0)
            apache.start_broker(0)
            assert positions(group) == before
            rest, _ = task.communicate(b"\n", timeout=90)
            assert rows + int(rest) == count
        # The stop did confirm what was on its way: to the groups that tasks read in.
        assert max(one.committed for one in positions(*reader_groups_of(group))) > 0
        assert positions(group) == before
    finally:
        reader.stop()
    assert positions(group) == before


@contextlib.contextmanager
def in_mid_range(reader: TubeStreamReader, partition: ReadTask) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A task that has read its first rows, and how many; it is ended with the block."""
    with subprocess.Popen([sys.executable, "-c", TASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as task:
        try:
            assert task.stdin is not None
            assert task.stdout is not None
            task.stdin.write(pickle.dumps((reader, partition)))
            task.stdin.flush()
            rows = int(task.stdout.readline())
            assert 0 < rows < partition.ranges[0].max_messages
            yield task, rows
        finally:
            task.kill()
