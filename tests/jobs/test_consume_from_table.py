"""A group goes from Spark to a consumer without Spark and back, by the offsets table alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedded_tubemq import EmbeddedTubeMQ
from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.broker.offsets import Reader as RivalReader
from jobs.consume_from_table import consume
from offsets_store import GroupKey, OffsetsTable, PartitionProgress, SupersededRun
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream
from tests.waiting import wait_for
from tubeclient import ClientSettings, Delivery, PartitionKey

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube")) as running:
        yield running


class Group:
    """The feed's group, its table, and its only consumer, at work within a `with`."""

    def __init__(self, feed: Feed, folder: Path) -> None:
        self.feed, self.name = feed, f"{feed.topic}_group"
        self.uri = str(folder / "offsets")
        self.settings = ClientSettings((feed.tube.master_address,), master_web_port=feed.tube.master_web_port)
        self.bodies: list[bytes] = []
        """What the consumer has read."""
        self.before: Callable[[Delivery], object] = lambda _: None
        """Called with each pack before it counts as read."""

    @property
    def table(self) -> OffsetsTable:
        return OffsetsTable(self.uri)

    def positions(self) -> dict[PartitionKey, int]:
        return self.table.positions(self.name, [self.feed.topic])

    def query(self, spark: SparkSession, checkpoint: Path) -> list[bytes]:
        """Run a query from the table, with a new checkpoint, up to the end; returns what it read."""
        sink = Batches()
        options = self.feed.options(startingOffsets="group:earliest", maxOffsetsPerTrigger=60, offsetsTable=self.uri)
        run_available(stream(spark, options), checkpoint, sink)
        self.feed.wait_until_free()
        return sink.all

    def __enter__(self) -> Group:
        self.bodies.clear()
        self.stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.done = self._pool.submit(
            consume, self.settings, self.table, self.name, [self.feed.topic], handle=self._handle, stop=self.stop
        )
        return self

    def _handle(self, delivery: Delivery) -> None:
        self.before(delivery)
        self.bodies.extend(map(bytes, delivery.bodies))

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._pool.shutdown()
        self.done.result(0)

    def wait(self, fulfilled: Callable[[], object], what: str) -> None:
        wait_for(lambda: fulfilled() or self.done.done(), what, seconds=60)

    def read(self, number: int) -> list[bytes]:
        """What a consumer reads that ends after the pack with which it has so many messages."""
        self.before = lambda delivery: self.stop.set() if len(self.bodies) + len(delivery) >= number else None
        with self:
            self.wait(self.stop.is_set, "the messages")
        self.feed.wait_until_free()
        return list(self.bodies)


@pytest.fixture
def group(tube: EmbeddedTubeMQ, tmp_path: Path, request: pytest.FixtureRequest) -> Group:
    """Of a topic of its own, with two stores of two partitions each."""
    name = f"topic{abs(hash(request.node.name))}"
    return Group(Feed.create(tube, name, stores=2, partitions=2), tmp_path)


@pytest.mark.merge
@pytest.mark.spark
def test_from_spark_to_two_consumers_and_back(delta_spark: SparkSession, group: Group, tmp_path: Path) -> None:
    """One after the other."""
    feed = group.feed
    feed.send(100)
    first = group.query(delta_spark, tmp_path / "one")
    assert first == feed.sent
    feed.send(100)
    second = [*group.read(1), *group.read(1)]
    assert 0 < len(second) < 100  # they leave something to be read
    feed.send(20)
    third = group.query(delta_spark, tmp_path / "two")
    assert sorted([*first, *second, *third]) == feed.sent
    assert len(third) == 220 - 100 - len(second)


@pytest.mark.spark
def test_from_two_consumers_to_spark_and_back(delta_spark: SparkSession, group: Group, tmp_path: Path) -> None:
    feed = group.feed
    feed.send(100)
    first = [*group.read(1), *group.read(1)]
    assert 0 < len(first) < 100
    second = group.query(delta_spark, tmp_path / "one")
    feed.send(100)
    third = group.read(100)
    assert sorted([*first, *second, *third]) == feed.sent


def test_a_reset_stops_the_consumer_at_its_next_record(group: Group) -> None:
    group.feed.send(10, partitions=[0])
    read, go_on = threading.Event(), threading.Event()

    def hold(_: Delivery) -> None:
        read.set()
        assert go_on.wait(30)

    group.before = hold
    with pytest.raises(SupersededRun, match=r"was superseded"), group:  # noqa: PT012
        assert read.wait(30)
        run = group.table.open_run(GroupKey(group.name, [group.feed.topic]), 1, force=True)
        run.record([PartitionProgress(partition, 280) for partition in group.positions()])
        go_on.set()
        wait_for(group.done.done, "the end")
    assert set(group.positions().values()) == {280}


def test_script_records_on_sigterm(group: Group) -> None:
    """The script records the messages that it printed if it gets SIGTERM."""
    feed = group.feed
    feed.send(40)
    command = [sys.executable, str(ROOT / "jobs" / "consume_from_table.py"), "--master-servers"]
    command += [feed.tube.master_address, "--master-web-port", str(feed.tube.master_web_port), "--topic", feed.topic]
    command += ["--consumer-group", group.name, "--offsets-table", group.uri]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as job:
        try:
            assert job.stdout is not None
            printed = [job.stdout.readline().strip() for _ in feed.sent]
            job.terminate()
            assert job.wait(30) == 0
        finally:
            job.kill()
    assert sorted(printed) == feed.sent
    feed.wait_until_free()
    feed.send(20)
    assert sorted(group.read(20)) == feed.sent[40:]


def test_lost_partition_is_regained(group: Group) -> None:
    """The consumer takes a lost partition back at the position it had confirmed."""
    feed = group.feed
    feed.send(100)
    cursor = Cursor(group.name, feed.topic, 0)

    def owner() -> str:
        reader = feed.tube.inspect(lambda broker: broker.ownership.owner(cursor))
        return "" if reader is None else reader.client_id

    with group:
        group.wait(lambda: len(group.bodies) >= 100, "the messages")
        feed.tube.inspect(lambda broker: broker.ownership.release(cursor))
        feed.tube.inspect(lambda broker: broker.ownership.take(cursor, RivalReader("thief", None, 0, 0), 1 << 60))
        late = feed.send(50, partitions=[0])
        rest = feed.send(50, partitions=[1])
        wait_for(lambda: set(group.bodies) >= set(rest), "the other partitions")
        wait_for(lambda: "thief" in owner(), "nothing but the thief's")
        assert not set(late) & set(group.bodies)
        feed.tube.inspect(lambda broker: broker.ownership.release(cursor))
        group.wait(lambda: len(group.bodies) >= len(feed.sent), "the messages")
        assert sorted(group.bodies) == sorted(feed.sent)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
@pytest.mark.parametrize("back", ["before the pack is confirmed", "after it could not be confirmed"])
def test_broker_restart(group: Group, caplog: pytest.LogCaptureFixture, clean: bool, back: str) -> None:
    """It goes down while a pack is out. What was not confirmed then may come a second time."""
    feed, confirmed = group.feed, set[bytes]()
    feed.send(400)
    early = back.startswith("before")
    down = threading.Event()

    def restart_once(_: Delivery) -> None:
        if not confirmed and len(group.bodies) >= 100:
            confirmed.update(group.bodies)
            feed.tube.stop_broker(clean=clean)
            if early:
                feed.tube.start_broker()
            down.set()

    group.before = restart_once
    with group:
        try:
            group.wait(down.is_set, "the broker to go")
            assert down.is_set()
            if not early:
                group.wait(lambda: "may come again" in caplog.text, "the confirmation to fail")
        finally:
            if down.is_set() and not early:
                feed.tube.start_broker()
        group.wait(lambda: {*group.bodies} >= {*feed.sent}, "the messages")
        feed.send(40)
        group.wait(lambda: {*group.bodies} >= {*feed.sent}, "those after the restart")
    assert {*group.bodies} == {*feed.sent}
    again = Counter(group.bodies) - Counter(feed.sent)
    assert set(again.values()) <= {1}
    assert not again.keys() & confirmed
    kept = group.positions()
    cursors = {key: Cursor(group.name, key.topic, key.partition_id) for key in kept}
    assert len(kept) == 4
    assert kept == feed.tube.inspect(lambda broker: {key: broker.offsets.committed(at) for key, at in cursors.items()})
    feed.wait_until_free()
    late = feed.send(20)
    assert sorted(group.read(20)) == late
