"""Registering and giving back: several threads at a partition, brokers that were stopped, and what is left after it."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_tubemq.broker.offsets import Ownership
from tests.tubeclient.consuming import LOOKERS, Bench, Client
from tests.tubeclient.simulation import Weather
from tubeclient.errors import (
    ClientClosed,
    DataLoss,
    PartitionOccupied,
    ServerBusy,
    StalePack,
)
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.registrar import Lost
from tubeclient.wire.methods import Method


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.connected(prefetch=0)


def test_late_fetch_behind_registration(bench: Bench, client: Client) -> None:
    """Else the commit of the pack that follows the registration would cover what the late fetch noted."""
    bench.simulation.hold_up(Method.GET_MESSAGES, 1_000)
    late = bench.simulation.start(client.fetcher.get(timeout_ms=3_000))
    moved = bench.simulation.start(client.registrar.connect(bench.view, bench.key(), 0, timeout_ms=0))
    bench.simulation.run(5_000)
    assert moved.result == 0
    client.confirm(late.result)
    assert late.result.bodies + client.drain() == bench.of(bench.key())


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("offset", [28, 28_000])
def test_an_offset_that_is_not_held_moves_nothing(bench: Bench, client: Client, offset: int, known: bool) -> None:
    first = client.get()
    position = client.confirm(first)
    bench.store(bench.key()).expire(56)
    if not known:
        client.disconnect(bench.key())
    with pytest.raises(DataLoss, match=f"cannot be read from {offset} on"):
        client.connect(bench.key(), offset)
    assert client.held() == [bench.key()] * known
    assert bench.committed(bench.key()) == position
    if not known:
        assert client.connect(bench.key()) == position
    assert client.events_of(Lost) == []
    assert client.drain() == bench.of(bench.key())[len(first) :]


def test_what_took_the_place_of_a_lost_tail_is_read(bench: Bench, client: Client) -> None:
    """A broker that crashed may have lost messages that were confirmed; new ones get their offsets."""
    client.drain()
    before = len(bench.of(bench.key()))
    bench.store(bench.key()).truncate(5 * 28)
    bench.brokers[1].ownership.release(bench.cursor(bench.key()))
    bench.brokers[1].offsets.reset(bench.cursor(bench.key()), 5 * 28, bench.store(bench.key()).bounds)
    bench.send(10)
    assert client.drain() == bench.of(bench.key())[before:]


def test_closing_gives_back_what_is_being_connected(bench: Bench) -> None:
    client = bench.client()
    bench.simulation.hold_up(Method.PARTITION_REGISTER, 500)
    connecting = bench.simulation.start(
        client.registrar.connect(bench.view, bench.key(), -1, timeout_ms=5_000), on_event=client.handle
    )
    bench.simulation.run(100)
    client.registrar.closed = True
    bench.simulation.run(3_000)
    assert isinstance(connecting.error, ClientClosed)
    assert client.registrar.holdings.by_key == {}
    assert bench.client("rival").connect(bench.key()) == 0


def test_expiry_during_pause(bench: Bench) -> None:
    """Messages that expire while nobody calls get for a long time raise DataLoss."""
    client = bench.connected(reader_groups=LOOKERS)
    client.drain()
    bench.send(20)
    bodies = bench.of(bench.key())
    expired = len(bodies) - 3
    bench.simulation.run(120_000)
    bench.store(bench.key()).expire(expired * 28)
    with pytest.raises(DataLoss, match="expired"):
        client.get()
    assert client.drain() == bodies[expired:]


# Given back while the broker was away, and had again

AWAY = Weather(break_connection=1.0)
CALM = Weather()


@pytest.fixture
def beginner(bench: Bench) -> Client:
    """It has confirmed a first pack; the broker has noted a second one as fetched."""
    client = bench.connected(prefetch=1)
    client.confirm(client.get())
    bench.simulation.run(100)
    return client


def go_away(bench: Bench, client: Client, *, clean: bool) -> None:
    """Stop the broker, let the client give the partition back, and start the broker anew."""
    broker = bench.brokers[1]
    bench.simulation.weather = AWAY
    if clean:
        broker.offsets.commit_all()
    else:
        broker.offsets.reset(bench.cursor(bench.key()), 28, bench.store(bench.key()).bounds)
    assert client.disconnect(bench.key())
    assert client.held() == []
    broker.ownership = Ownership(broker.settings.lease_ms)
    bench.simulation.weather = CALM


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
def test_a_partition_goes_on_where_it_was_confirmed(bench: Bench, beginner: Client, clean: bool) -> None:
    confirmed = beginner.registrar.holdings.by_key[bench.key()].confirmed
    assert confirmed > 28
    go_away(bench, beginner, clean=clean)
    assert bench.committed(bench.key()) != confirmed
    assert beginner.connect(bench.key()) == confirmed
    assert beginner.drain() == bench.of(bench.key())[confirmed // 28 :]


def test_others_confirmed_after_release(bench: Bench, beginner: Client) -> None:
    """A client resumes where others confirmed after a release that the broker knows of."""
    assert beginner.disconnect(bench.key())
    other = bench.client("other")
    other.connect(bench.key())
    other.confirm(other.get())
    position = bench.committed(bench.key())
    other.disconnect(bench.key())
    assert beginner.connect(bench.key()) == position


def test_others_took_over_meanwhile(bench: Bench, beginner: Client) -> None:
    """A client that connects again does not take back what others took over meanwhile."""
    go_away(bench, beginner, clean=True)
    other = bench.client("other")
    other.connect(bench.key())
    with pytest.raises(PartitionOccupied):
        beginner.connect(bench.key())
    other.confirm(other.get())
    position = bench.committed(bench.key())
    other.disconnect(bench.key())
    assert beginner.connect(bench.key()) == position


def test_reassigned_meanwhile(bench: Bench, beginner: Client) -> None:
    """A client does not restore its position if its partition went to another node meanwhile."""
    go_away(bench, beginner, clean=True)
    beginner.do(beginner.registrar.balance(bench.view, [], {}, release_wait_ms=0))
    position = bench.committed(bench.key())
    beginner.do(beginner.registrar.balance(bench.view, [bench.key()], {}, release_wait_ms=0))
    assert beginner.registrar.holdings.by_key[bench.key()].confirmed == position


# A clean stop confirms what was noted, unasked


@pytest.fixture
def ahead(bench: Bench) -> Client:
    return bench.connected()


@pytest.fixture
def out(ahead: Client) -> Delivery:
    """The second pack, out; the first one is confirmed."""
    ahead.confirm(ahead.get())
    return ahead.get()


def assert_nothing_is_missing(bench: Bench, client: Client, out: Delivery) -> None:
    with pytest.raises(StalePack):
        client.confirm(out)
    bench.simulation.run(1_000)
    if bench.key() not in client.held():
        assert [event.partition for event in client.events_of(Lost)] == [bench.key()]
        assert client.connect(bench.key()) == out.start
    assert client.drain() == bench.of(bench.key())[out.start // 28 :]
    assert client.registrar.left == {}


@pytest.mark.parametrize("stall_ms", [20_000, 32_000, 200_000])
def test_a_client_that_stood_still_meanwhile(bench: Bench, ahead: Client, out: Delivery, stall_ms: int) -> None:
    ahead.stand_still()
    bench.simulation.at(10_000, lambda: bench.restart_cleanly(bench.key()))
    bench.simulation.at(stall_ms, lambda: None)
    bench.simulation.run(stall_ms)
    ahead.go_on()
    assert_nothing_is_missing(bench, ahead, out)


@pytest.mark.parametrize("code", [400, 403, 500, 503])
@pytest.mark.parametrize("by", ["heartbeat", "confirmation"])
def test_a_broker_that_refuses_it(bench: Bench, ahead: Client, out: Delivery, code: int, by: str) -> None:
    bench.restart_cleanly(bench.key())
    bench.brokers[1].faults.force(Method.PARTITION_REGISTER, code)
    if by == "heartbeat":
        bench.simulation.run(9_000)
    assert_nothing_is_missing(bench, ahead, out)


def test_a_connect_that_is_refused_half_way(bench: Bench, ahead: Client, out: Delivery) -> None:
    bench.restart_cleanly(bench.key())
    bench.brokers[1].faults.force(Method.PARTITION_REGISTER, 400)
    bench.simulation.run(9_000)
    assert ahead.held() == []
    broker: Any = bench.brokers[1]
    handle, asked = broker.handle, 0

    def refuse_the_second(method: Method, *arguments: Any) -> Any:
        nonlocal asked
        asked += method is Method.PARTITION_REGISTER
        if asked == 2:
            broker.faults.force(Method.PARTITION_REGISTER, 503)
            asked += 1
        return handle(method, *arguments)

    broker.handle = refuse_the_second
    with pytest.raises(ServerBusy):
        ahead.connect(bench.key())
    assert_nothing_is_missing(bench, ahead, out)


def test_release_before_correction(bench: Bench, ahead: Client, out: Delivery) -> None:
    """No message is missing if a partition is released before its position is corrected."""
    bench.restart_cleanly(bench.key())
    broker: Any = bench.brokers[1]
    handle = broker.handle

    def refuse_corrections(method: Method, request: Any, *more: Any) -> Any:
        if method is Method.PARTITION_REGISTER and request.HasField("currOffset"):
            broker.faults.force(Method.PARTITION_REGISTER, 503)
        return handle(method, request, *more)

    broker.handle = refuse_corrections
    bench.simulation.run(9_000)
    broker.handle = handle
    assert ahead.registrar.holdings.by_key[bench.key()].position.confirmed == out.start  # not where the broker is
    assert ahead.disconnect(bench.key())
    assert ahead.connect(bench.key()) == out.start
    assert_nothing_is_missing(bench, ahead, out)


@pytest.mark.parametrize("answer", [False, True], ids=["request", "answer"])
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_a_registration_that_is_lost(bench: Bench, ahead: Client, out: Delivery, before: int, answer: bool) -> None:
    bench.restart_cleanly(bench.key())
    for _ in range(before):
        bench.simulation.let_pass(Method.PARTITION_REGISTER)
    bench.simulation.lose(Method.PARTITION_REGISTER, answer=answer)
    bench.simulation.run(40_000)
    assert_nothing_is_missing(bench, ahead, out)
