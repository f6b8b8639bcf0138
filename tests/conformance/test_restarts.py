"""Clean restarts of a broker and of the master, with consumers reading and without."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.waiting import group_page, wait_for
from tubeclient import ClientBalanceConsumer, PartitionKey, Producer, SendResult, StalePack, TransportError, TubeError

pytestmark = pytest.mark.apache

# A broker of Apache's is away for 8 s when it is restarted cleanly, and idle readers look after it every 8 s.
SECONDS = 60.0

Messages = Counter[tuple[PartitionKey, int]]
"""Messages by partition and message id."""


class Reader:
    """Reads and confirms on a thread, and notes what it met."""

    def __init__(self, consumer: ClientBalanceConsumer) -> None:
        self._consumer = consumer
        self.bodies: set[bytes] = set()
        self.confirmed: Messages = Counter()
        self.unconfirmed: Messages = Counter()
        self.of_broker: Counter[int] = Counter()
        """How many messages of each broker were confirmed."""
        self.errors: list[TubeError] = []

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                delivery = self._consumer.get(timeout_ms=200)
            except TubeError as error:
                self.errors.append(error)
                continue
            if delivery is None:
                continue
            self.bodies.update(delivery.bodies)
            messages = [(delivery.partition, message_id) for message_id in delivery.message_ids]
            try:
                self._consumer.confirm(delivery)
            except TubeError as error:
                self.unconfirmed.update(messages)
                if not isinstance(error, StalePack):
                    self.errors.append(error)
            else:
                self.confirmed.update(messages)
                self.of_broker[delivery.partition.broker_id] += len(messages)


@contextmanager
def producing(producer: Producer, topic: str) -> Iterator[list[Future[SendResult]]]:
    """Send numbered messages, a hundred every 20 ms, for the length of the block."""
    sent: list[Future[SendResult]] = []
    stop = threading.Event()
    producer.publish([topic])

    def run() -> None:
        for start in itertools.count(0, 100):
            sent.extend(producer.submit_many(topic, [b"%d" % number for number in range(start, start + 100)]))
            if stop.wait(0.02):
                return

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run)
        try:
            yield sent
        finally:
            stop.set()
        running.result(SECONDS)


def is_listed(tube: Cluster) -> bool:
    """Whether the master has the group's node; False while the page of a server that just started is late."""
    with contextlib.suppress(TransportError):
        return bool(group_page(tube.master_web_port, "restarts"))
    return False


@pytest.mark.merge("apache")
def test_restarts_while_consuming(tube: Cluster, producer: Producer, consumer_of: MakeConsumer) -> None:
    """Restarts of a broker and the master lose no message and repeat no confirmed one."""
    consumer = consumer_of("restarts", ["restarts"], source_count=1, node_id=0)
    for key in consumer.partitions():
        consumer.connect(key)
    reader, stop = Reader(consumer), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(reader.run, stop)
        try:
            with producing(producer, "restarts") as sent:
                wait_for(lambda: reader.of_broker[1] > 200, "messages of broker 1", seconds=SECONDS)
                with tube.without_broker(1):
                    before = reader.of_broker[2]
                    wait_for(
                        lambda: reader.of_broker[2] > before, "messages of the other broker meanwhile", seconds=SECONDS
                    )
                # Not the producer: it leaves a broker in peace for 50 s that answered 503, as a stopping one may.
                tube.put(PartitionKey(1, "restarts", 1), [b"back again"])
                wait_for(lambda: b"back again" in reader.bodies, "a new message of broker 1", seconds=SECONDS)
                tube.servers.restart_master()
                wait_for(lambda: is_listed(tube), "the node at the new master", seconds=SECONDS)
                before = len(reader.bodies)
                wait_for(lambda: len(reader.bodies) > before, "messages after the master's restart", seconds=SECONDS)
            for future in sent:
                future.result(SECONDS)
            bodies = {b"back again", *(b"%d" % number for number in range(len(sent)))}
            wait_for(lambda: len(reader.bodies) >= len(bodies), "every message", seconds=SECONDS)
        finally:
            stop.set()
        running.result(SECONDS)
    assert [error for error in reader.errors if not error.retriable] == []
    assert reader.bodies == bodies
    assert set(reader.confirmed.values()) == {1}
    # What was out when the broker went may come twice: at most one pack of each of its partitions.
    assert {key.broker_id for key, _ in reader.unconfirmed} <= {1}
    consumer.close()
    after = consumer_of("restarts", ["restarts"], source_count=1, node_id=0)
    for key in after.partitions():
        after.connect(key)
    assert after.get(timeout_ms=500) is None
