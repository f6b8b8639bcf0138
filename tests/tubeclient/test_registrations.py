"""Several threads of one consumer at the same partition, and what is left after each; on simulated brokers."""

from __future__ import annotations

import pytest

from tests.tubeclient.consuming import Bench, Client
from tubeclient.errors import (
    ClientClosed,
    DataLoss,
    DeadlineExceeded,
    PartitionTaken,
    PartitionUnavailable,
    StalePack,
)
from tubeclient.flows.effects import Flow, Receive
from tubeclient.flows.registrations import Assigned, Lost
from tubeclient.wire.methods import Method


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.connected(prefetch=0)


def test_a_fetch_that_leaves_late_is_not_noted_behind_a_registration(bench: Bench, client: Client) -> None:
    """Else the commit of the pack that follows the registration would cover what the late fetch noted."""
    bench.simulation.hold_up(Method.GET_MESSAGES, 1_000)
    late = bench.simulation.start(client.consumption.get(timeout_ms=3_000))
    moved = bench.simulation.start(client.registrations.connect(bench.view, bench.key(), 0, timeout_ms=0))
    bench.simulation.run(500)
    assert not moved.done
    bench.simulation.run(5_000)
    assert moved.result == 0
    client.confirm(late.result)
    assert late.result.bodies + client.drain() == bench.of(bench.key())


def test_a_fetch_that_leaves_late_leaves_before_its_partition_does(bench: Bench, client: Client) -> None:
    bench.simulation.hold_up(Method.GET_MESSAGES, 1_000)
    bench.simulation.start(client.consumption.get(timeout_ms=3_000))
    released = bench.simulation.start(client.registrations.disconnect(bench.key(), wait_ms=0))
    bench.simulation.run(500)
    assert not released.done
    bench.simulation.run(1_000)
    assert released.result is True
    rival = bench.client("rival")
    rival.connect(bench.key())
    assert rival.drain() == bench.of(bench.key())


def test_a_fetch_that_leaves_late_is_not_noted_behind_another_one(bench: Bench, client: Client) -> None:
    bench.simulation.hold_up(Method.GET_MESSAGES, 1_000)
    late = bench.simulation.start(client.consumption.get(timeout_ms=3_000))
    bench.simulation.run(100)
    line = client.registrations.holdings.lines[1]
    client.do(
        client.registrar.line_down(line, DeadlineExceeded("a fault"))
    )  # as where another partition's call met a fault
    bench.simulation.run(500)  # and the heartbeat has had an answer again
    assert line.up
    other = bench.simulation.start(client.consumption.get(timeout_ms=300))
    bench.simulation.run(3_000)
    assert other.result is None
    client.confirm(late.result)
    assert late.result.bodies + client.drain() == bench.of(bench.key())


def test_a_confirmation_that_leaves_late_leaves_with_its_fetch_before_a_registration(bench: Bench) -> None:
    client = bench.connected(prefetch=1)
    delivery = client.get()
    bench.simulation.hold_up(Method.COMMIT_OFFSET, 1_000)
    confirming = bench.simulation.start(client.consumption.confirm(delivery, consumed=True))
    moved = bench.simulation.start(client.registrations.connect(bench.view, bench.key(), 0, timeout_ms=0))
    bench.simulation.run(500)
    assert not moved.done
    bench.simulation.run(5_000)
    assert bench.simulation.writes[-3] == (Method.COMMIT_OFFSET, Method.GET_MESSAGES)
    assert confirming.done
    assert moved.result == 0
    assert client.drain() == bench.of(bench.key())


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
    assert client.registrations.holdings.registered() == [bench.key()] * known
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


def test_a_seek_outlives_the_lost_answer_of_a_commit_before_it(bench: Bench, client: Client) -> None:
    delivery = client.get()
    bench.simulation.lose(Method.COMMIT_OFFSET, answer=True)
    confirming = bench.simulation.start(client.consumption.confirm(delivery, consumed=True))
    bench.simulation.run(9_990)  # of the 10 000 until it is given up
    bench.simulation.hold_up(Method.PARTITION_REGISTER, 100)
    seeking = bench.simulation.start(client.registrations.connect(bench.view, bench.key(), 0, timeout_ms=0))
    bench.simulation.run(5_000)
    assert confirming.done
    assert isinstance(confirming.error, StalePack)
    assert seeking.result == 0
    assert client.drain() == bench.of(bench.key())


def test_of_two_threads_that_connect_one_partition_one_that_fails_does_no_harm(bench: Bench) -> None:
    client = bench.client(prefetch=0)
    bench.brokers[1].faults.force(Method.PARTITION_REGISTER, 400)
    bench.simulation.hold_up(Method.PARTITION_REGISTER, 0)
    bench.simulation.hold_up(Method.PARTITION_REGISTER, 1_000)  # the failing one's good-bye
    flows = [client.registrations.connect(bench.view, bench.key(), -1, timeout_ms=0) for _ in range(2)]
    first, second = (bench.simulation.start(flow, on_event=client.handle) for flow in flows)
    bench.simulation.run(3_000)
    assert first.error is not None
    assert second.result == 0
    assert client.registrations.holdings.registered() == [bench.key()]
    assert client.drain() == bench.of(bench.key())


def test_a_partition_lost_while_it_is_moved_is_not_read_on(bench: Bench, client: Client) -> None:
    """The broker's answer comes nonetheless; what it would give is nobody's any more."""

    def moved() -> Flow[int]:
        flow = client.registrations.connect(bench.view, bench.key(), 0, timeout_ms=0)
        effect = next(flow)
        try:
            while True:
                result = yield effect
                if isinstance(effect, Receive):
                    holding = client.registrations.holdings.by_key.get(bench.key())
                    if holding is not None:  # another thread's answer says so
                        yield from client.registrations.lose(holding, PartitionTaken(412, "taken"))
                effect = flow.send(result)
        except StopIteration as stop:
            return int(stop.value)

    with pytest.raises(PartitionUnavailable, match="released during the connect"):
        client.do(moved())
    assert [event.partition for event in client.events_of(Lost)] == [bench.key()]
    assert client.drain() == []
    rival = bench.client("rival")
    assert rival.connect(bench.key()) == 0
    assert rival.drain() == bench.of(bench.key())


def test_closing_gives_back_what_is_being_connected(bench: Bench) -> None:
    client = bench.client()
    bench.simulation.hold_up(Method.PARTITION_REGISTER, 500)
    connecting = bench.simulation.start(
        client.registrations.connect(bench.view, bench.key(), -1, timeout_ms=5_000), on_event=client.handle
    )
    bench.simulation.run(100)
    client.registrar.closed = True
    bench.simulation.run(3_000)
    assert isinstance(connecting.error, ClientClosed)
    assert client.registrations.holdings.by_key == {}
    assert bench.client("rival").connect(bench.key()) == 0


def test_giving_back_ends_a_connecting_that_waits(bench: Bench, client: Client) -> None:
    rival = bench.client("rival")
    flow = rival.registrations.connect(bench.view, bench.key(), -1, timeout_ms=20_000)
    connecting = bench.simulation.start(flow, on_event=rival.handle)
    bench.simulation.run(1_000)
    rival.disconnect(bench.key())
    client.disconnect(bench.key())
    bench.simulation.run(30_000)
    assert connecting.done
    assert rival.events_of(Assigned) == []
    assert isinstance(connecting.error, PartitionUnavailable)
    assert bench.client("third").connect(bench.key()) == 0


def test_giving_back_at_once_ends_a_wait(bench: Bench, client: Client) -> None:
    client.get()
    waiting = bench.simulation.start(client.registrations.disconnect(bench.key(), wait_ms=60_000))
    bench.simulation.run(1_000)
    assert client.do(client.registrations.disconnect(bench.key(), wait_ms=60_000)) is False
    assert client.do(client.registrations.disconnect(bench.key(), wait_ms=60_000, at_once=True)) is True
    bench.simulation.run(1_000)
    assert waiting.done
    assert bench.client("rival").connect(bench.key()) == 0


def test_the_order_to_jump_is_carried_out_whatever_comes_between(bench: Bench, client: Client) -> None:
    bench.simulation.lose(Method.PARTITION_REGISTER, answer=False)
    client.do(client.registrations.jump_to_latest())
    before = len(bench.of(bench.key()))
    bench.send(10)
    assert client.drain() == bench.of(bench.key())[before:]


def test_what_expires_while_nobody_asks_for_long_is_an_error(bench: Bench, client: Client) -> None:
    client.drain()
    bench.send(20)
    bodies = bench.of(bench.key())
    expired = len(bodies) - 3
    bench.simulation.run(120_000)
    bench.store(bench.key()).expire(expired * 28)
    with pytest.raises(DataLoss, match="expired"):
        client.get()
    assert client.drain() == bodies[expired:]
