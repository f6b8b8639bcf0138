"""A forked child inherits no client of its parent's, can make its own, and the parent notices nothing."""

from __future__ import annotations

import gc
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, as_completed, wait
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.forking import MULTI_THREADED, Held, in_child
from tests.tubeclient.stored import bodies
from tests.waiting import wait_for
from tubeclient import (
    BrokerInfo,
    ClientClosed,
    ClientSettings,
    GroupMembership,
    OffsetLookup,
    OffsetRange,
    PartitionKey,
    Producer,
    RangeReader,
    SendResult,
    reader_groups_of,
)
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import shared_pool

pytestmark = pytest.mark.filterwarnings(MULTI_THREADED)

GROUPS = reader_groups_of("etl")
MESSAGES = 200
FORKS = 25


@pytest.fixture
def piece(cluster: EmbeddedTubeMQ) -> OffsetRange:
    """A range of messages b"0", b"1", ... that nobody else writes to."""
    cluster.load("single", [NewMessage(0, b"%d" % number) for number in range(MESSAGES)])
    return OffsetRange(PartitionKey(1, "single", 0), 0, MESSAGES * 28)


@pytest.fixture
def broker(cluster: EmbeddedTubeMQ) -> BrokerInfo:
    host, _, port = cluster.broker_addresses[1].rpartition(":")
    return BrokerInfo(1, host, int(port))


def read(reader: RangeReader, broker: BrokerInfo, piece: OffsetRange) -> list[bytes]:
    packs = reader.read(broker, piece)
    return [body for pack in packs for body in pack.bodies]


EXPECTED = [b"%d" % number for number in range(MESSAGES)]


def test_busy_parent(cluster: EmbeddedTubeMQ, settings: ClientSettings, broker: BrokerInfo, piece: OffsetRange) -> None:
    """Children of a busy parent can use clients of their own, and the parent works on."""
    settings = replace(settings, rpc_timeout_ms=30_000, retry_limit_ms=60_000)  # what is sent again may be there twice
    producer = Producer(settings, max_in_flight=200)
    producer.publish(["clicks"])
    stop = threading.Event()
    numbers = itertools.count()
    futures: list[tuple[bytes, Future[SendResult]]] = []
    reads: list[list[bytes]] = []
    failures: list[BaseException] = []

    def send() -> None:
        while not stop.is_set():
            wanted = [b"parent-%d" % next(numbers) for _ in range(20)]
            futures.extend(zip(wanted, producer.submit_many("clicks", wanted), strict=True))

    def read_again_and_again() -> None:
        with RangeReader(settings, GROUPS) as reader:
            while not stop.is_set():
                reads.append(read(reader, broker, piece))

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    def reached(reads_goal: int, futures_goal: int) -> bool:
        return (len(reads) >= reads_goal and len(futures) >= futures_goal) or bool(failures)

    threads = [threading.Thread(target=run, args=(work,)) for work in (send, send, read_again_and_again)]
    parents_pool = shared_pool(settings)

    def child(number: int) -> None:
        with pytest.raises(ClientClosed, match="Producer belongs to the process that made it"):
            producer.submit("clicks", b"never")
        producer.close()
        assert shared_pool(settings) is not parents_pool
        with RangeReader(settings, GROUPS) as own_reader:
            assert read(own_reader, broker, piece) == EXPECTED
        with Producer(settings) as own:
            own.publish(["clicks"])
            own.send("clicks", b"child-%d" % number)

    for thread in threads:
        thread.start()
    try:
        for number in range(FORKS):
            goals = len(reads) + 1, len(futures) + 1
            in_child(partial(child, number))
            wait_for(partial(reached, *goals), "the parent to go on")
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert failures == []
    producer.close()
    sent = [body for body, future in futures if future.result(0)]
    assert set(map(tuple, reads)) == {tuple(EXPECTED)}
    expected = Counter(sent) + Counter(b"child-%d" % number for number in range(FORKS))
    found = bodies(cluster)
    assert (found - expected, expected - found) == (Counter(), Counter())


def test_waiting_for_parents_message(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """A child that waits for its parent's message gets ClientClosed, whatever way it waits."""
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).answer_delay_ms = 500
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        future = producer.submit("clicks", b"x")
        ways: list[Callable[[], object]] = [
            future.result,
            lambda: wait([future]),
            lambda: list(as_completed([future])),
            lambda: future.add_done_callback(print),
        ]

        def child() -> None:
            for way in ways:
                with pytest.raises(ClientClosed, match="make a new one in the child"):
                    way()

        in_child(child, seconds=3)
        assert future.result(10)


@pytest.fixture
def clients(settings: ClientSettings) -> Iterator[dict[str, Any]]:
    """One of each client, in use."""
    producer = Producer(settings)
    producer.publish(["clicks"])
    membership = GroupMembership(settings, "etl", ["clicks"], 1)
    membership.join()
    made: dict[str, Any] = {
        "producer": producer,
        "membership": membership,
        "reader": RangeReader(settings, GROUPS),
        "lookup": OffsetLookup(settings, GROUPS),
    }
    yield made
    for client in made.values():
        client.close()


def locks_of(thing: Any) -> list[Any]:
    """The locks of an object, and of the objects of this client that it is made of."""
    found = []
    for value in vars(thing).values():
        value = getattr(value, "_cond", value)  # of an Event
        if hasattr(value, "acquire"):
            found.append(getattr(value, "_lock", value))  # of a Condition, which may share it with others
        elif type(value).__module__.startswith("tubeclient.") and not isinstance(value, ProcessBound):
            found += locks_of(value) if hasattr(value, "__dict__") else []
    return found


def test_locks_held_at_the_fork_do_not_hang_the_child(
    settings: ClientSettings, clients: dict[str, Any], broker: BrokerInfo, piece: OffsetRange
) -> None:
    assert read(clients["reader"], broker, piece) == EXPECTED
    view = clients["membership"].view()
    future = clients["producer"].submit("clicks", b"x")
    uses: list[Callable[[], object]] = [
        lambda: clients["producer"].publish(["clicks"]),
        lambda: clients["producer"].send("clicks", b"y"),
        future.result,
        clients["membership"].join,
        clients["membership"].refreshed_view,
        lambda: clients["membership"].report({}),
        lambda: list(clients["reader"].read(broker, piece)),
        lambda: clients["lookup"].bounds(view),
    ]
    bound = [thing for thing in gc.get_objects() if isinstance(thing, ProcessBound)]
    locks = list({id(lock): lock for thing in bound for lock in locks_of(thing)}.values())
    assert len(locks) >= 12  # of pools, connections, runners and clients

    def child() -> None:
        for use in uses:
            with pytest.raises(ClientClosed, match=r"make a new one in the child"):
                use()
        for client in clients.values():
            client.close()
        with RangeReader(settings, GROUPS) as own_reader, Producer(settings) as own_producer:
            own_producer.publish(["clicks"])
            assert own_producer.send("clicks", b"child")
            assert read(own_reader, broker, piece) == EXPECTED

    with Held(locks):
        in_child(child)
    assert future.result(10)
    assert clients["membership"].refreshed_view().partitions()
    assert read(clients["reader"], broker, piece) == EXPECTED
