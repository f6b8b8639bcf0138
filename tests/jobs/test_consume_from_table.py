"""A group goes from Spark to consumers without Spark and back, by the offsets table alone."""

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


class Consumers:
    """Two consumers of the feed's group."""

    def __init__(self, feed: Feed, folder: Path) -> None:
        self.feed, self.group = feed, f"{feed.topic}_group"
        self.uri = str(folder / "offsets")
        self.settings = ClientSettings((feed.tube.master_address,), master_web_port=feed.tube.master_web_port)

    @property
    def table(self) -> OffsetsTable:
        return OffsetsTable(self.uri)

    def run(self, *, packs_each: int | None = None, until: int | None = None) -> list[bytes]:
        """Run both until each has read so many packs, or both together so many messages; returns what they read."""
        bodies: list[bytes] = []
        stops = [threading.Event(), threading.Event()]

        def node(node_id: int) -> None:
            packs = 0

            def handle(delivery: Delivery) -> None:
                nonlocal packs
                packs += 1
                bodies.extend(map(bytes, delivery.bodies))
                if packs == packs_each:
                    stops[node_id].set()
                if until is not None and len(bodies) >= until:
                    stops[0].set()
                    stops[1].set()

            # Recorded at the end only: what stands in the table then is what the hand-over is about.
            try:
                self.consume(node_id, handle, stops[node_id], record_every_s=600)
            except BaseException:
                stops[1 - node_id].set()  # or it would wait for what this one was to read
                raise

        with ThreadPoolExecutor(2) as pool:
            nodes = [pool.submit(node, node_id) for node_id in range(2)]
            try:
                for done in nodes:
                    done.result(timeout=60)
            finally:
                for stop in stops:
                    stop.set()
        self.feed.wait_until_free()
        return bodies

    def consume(
        self, node_id: int, handle: Callable[[Delivery], object], stop: threading.Event, *, record_every_s: float
    ) -> None:
        consume(
            self.settings,
            self.table,
            self.group,
            [self.feed.topic],
            source_count=2,
            node_id=node_id,
            handle=handle,
            stop=stop,
            record_every_s=record_every_s,
        )

    def positions(self) -> dict[PartitionKey, int]:
        return self.table.positions(self.group, [self.feed.topic])

    def query(self, spark: SparkSession, checkpoint: Path) -> list[bytes]:
        """Run a query from the table, with a new checkpoint, up to the end; returns what it read."""
        sink = Batches()
        options = self.feed.options(startingOffsets="group:earliest", maxOffsetsPerTrigger=60, offsetsTable=self.uri)
        run_available(stream(spark, options), checkpoint, sink)
        self.feed.wait_until_free()
        return sink.all


@pytest.fixture
def consumers(tube: EmbeddedTubeMQ, tmp_path: Path, request: pytest.FixtureRequest) -> Consumers:
    """Of a topic of their own, with two stores of two partitions each."""
    name = f"topic{abs(hash(request.node.name))}"
    return Consumers(Feed.create(tube, name, stores=2, partitions=2), tmp_path)


@pytest.mark.spark
def test_from_spark_to_two_consumers_and_back(delta_spark: SparkSession, consumers: Consumers, tmp_path: Path) -> None:
    feed = consumers.feed
    feed.send(100)
    first = consumers.query(delta_spark, tmp_path / "one")
    assert first == feed.sent
    feed.send(100)
    second = consumers.run(packs_each=1)
    assert 0 < len(second) < 100  # they leave something to be read
    feed.send(20)
    third = consumers.query(delta_spark, tmp_path / "two")
    assert sorted([*first, *second, *third]) == feed.sent
    assert len(third) == 220 - 100 - len(second)
    found = consumers.table.history(consumers.group, limit=100).commits
    assert len({commit.run_epoch for commit in found}) == 2  # the consumers went on under the first query's


@pytest.mark.spark
def test_from_two_consumers_to_spark_and_back(delta_spark: SparkSession, consumers: Consumers, tmp_path: Path) -> None:
    feed = consumers.feed
    feed.send(100)
    first = consumers.run(packs_each=1)
    assert 0 < len(first) < 100
    second = consumers.query(delta_spark, tmp_path / "one")
    feed.send(100)
    third = consumers.run(until=100)
    assert sorted([*first, *second, *third]) == feed.sent
    found = consumers.table.latest(GroupKey(consumers.group, [feed.topic]))
    assert found is not None
    assert {row.partition: row.node_id for row in found.partitions} == dict(
        zip(found.positions, (0, 1, 0, 1), strict=True)
    )


def test_a_reset_stops_consumers_at_their_next_record(consumers: Consumers) -> None:
    feed, key = consumers.feed, GroupKey(consumers.group, [consumers.feed.topic])
    feed.send(10, partitions=[0])
    read, go_on = threading.Event(), threading.Event()

    def handle(_: Delivery) -> None:
        read.set()
        assert go_on.wait(30)

    with ThreadPoolExecutor(1) as pool:
        stop = threading.Event()
        done = pool.submit(consumers.consume, 0, handle, stop, record_every_s=0)
        try:
            assert read.wait(30)
            run = consumers.table.open_run(key, 2, force=True)
            run.record([PartitionProgress(partition, 280) for partition in consumers.positions()])
            go_on.set()
            with pytest.raises(SupersededRun, match=f"epoch {run.epoch}"):
                done.result(30)
        finally:
            stop.set()
            go_on.set()
    assert set(consumers.positions().values()) == {280}


def test_the_script_prints_messages_and_records_them_when_it_is_told_to_end(consumers: Consumers) -> None:
    feed = consumers.feed
    feed.send(40)
    command = [sys.executable, str(ROOT / "jobs" / "consume_from_table.py"), "--master-servers"]
    command += [feed.tube.master_address, "--master-web-port", str(feed.tube.master_web_port), "--topic", feed.topic]
    command += ["--consumer-group", consumers.group, "--offsets-table", consumers.uri]
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
    assert sorted(consumers.run(until=20)) == feed.sent[40:]


class OneNode:
    """The group's only node, at work until the end of the `with`; what it has read.

    `before` is called with each pack before it counts as read.
    """

    def __init__(
        self,
        consumers: Consumers,
        before: Callable[[Delivery], object] = lambda _: None,
        *,
        record_every_s: float = 600,
    ) -> None:
        self.bodies: list[bytes] = []
        self._consumers, self._before, self._record_every_s = consumers, before, record_every_s
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> OneNode:
        consumers, feed = self._consumers, self._consumers.feed

        def handle(delivery: Delivery) -> None:
            self._before(delivery)
            self.bodies.extend(map(bytes, delivery.bodies))

        def run() -> None:
            consume(
                consumers.settings,
                consumers.table,
                consumers.group,
                [feed.topic],
                source_count=1,
                node_id=0,
                handle=handle,
                stop=self._stop,
                record_every_s=self._record_every_s,
            )

        self._done = self._pool.submit(run)
        return self

    def ended(self) -> bool:
        """Whether it ended by itself, which none should."""
        return self._done.done()

    def has_read(self, wanted: list[bytes]) -> None:
        wait_for(lambda: len(self.bodies) >= len(wanted) or self.ended(), "the messages", seconds=60)
        assert sorted(self.bodies) == sorted(wanted)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        self._done.result(0)


def test_a_lost_partition_is_taken_back_where_it_was_confirmed(consumers: Consumers) -> None:
    feed = consumers.feed
    feed.send(100)
    with OneNode(consumers) as node:
        node.has_read(feed.sent)
        cursor = Cursor(consumers.group, feed.topic, 0)
        feed.tube.inspect(lambda broker: broker.ownership.release(cursor))
        feed.tube.inspect(lambda broker: broker.ownership.take(cursor, RivalReader("thief", None, 0, 0), 1 << 60))
        late = feed.send(50, partitions=[0])
        rest = feed.send(50, partitions=[1])
        wait_for(lambda: set(node.bodies) >= set(rest), "the other partitions")
        wait_for(lambda: "thief" in owners(feed, cursor), "nothing but the thief's")
        assert not set(late) & set(node.bodies)
        feed.tube.inspect(lambda broker: broker.ownership.release(cursor))
        node.has_read(feed.sent)


def owners(feed: Feed, cursor: Cursor) -> str:
    reader = feed.tube.inspect(lambda broker: broker.ownership.owner(cursor))
    return "" if reader is None else reader.client_id


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
@pytest.mark.parametrize("back", ["before the pack is confirmed", "after it could not be confirmed"])
def test_a_restart_of_the_broker_loses_nothing_and_the_table_has_all(
    consumers: Consumers, caplog: pytest.LogCaptureFixture, clean: bool, back: str
) -> None:
    """It goes down while a pack is out. What was not confirmed then may come a second time."""
    feed, confirmed = consumers.feed, set[bytes]()
    feed.send(400)
    early = back.startswith("before")
    down = threading.Event()

    def restart_once(_: Delivery) -> None:
        if not confirmed and len(node.bodies) >= 100:
            confirmed.update(node.bodies)
            feed.tube.stop_broker(clean=clean)
            if early:
                feed.tube.start_broker()
            down.set()

    with OneNode(consumers, restart_once, record_every_s=0) as node:
        try:
            wait_for(lambda: down.is_set() or node.ended(), "the broker to go")
            assert down.is_set()
            if not early:
                wait_for(lambda: "may come again" in caplog.text or node.ended(), "the confirmation to fail")
        finally:
            if down.is_set() and not early:
                feed.tube.start_broker()
        wait_for(lambda: {*node.bodies} >= {*feed.sent} or node.ended(), "the messages", seconds=60)
        feed.send(40)
        wait_for(lambda: {*node.bodies} >= {*feed.sent} or node.ended(), "those after the restart", seconds=60)
    assert {*node.bodies} == {*feed.sent}
    again = Counter(node.bodies) - Counter(feed.sent)
    assert set(again.values()) <= {1}
    assert not again.keys() & confirmed
    kept = consumers.positions()
    assert kept == {key: committed(feed, Cursor(consumers.group, key.topic, key.partition_id)) for key in kept}
    feed.wait_until_free()
    late = feed.send(20)
    assert sorted(consumers.run(until=20)) == late


def committed(feed: Feed, cursor: Cursor) -> int | None:
    return feed.tube.inspect(lambda broker: broker.offsets.committed(cursor))
