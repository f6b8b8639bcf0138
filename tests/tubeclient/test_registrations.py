"""Several threads of one consumer at the same partition, and what is left after each; on simulated brokers."""

from __future__ import annotations

import pytest

from tests.tubeclient.consuming import LOOKERS, Bench, Client
from tubeclient.errors import (
    ClientClosed,
    DataLoss,
)
from tubeclient.flows.registrar import Lost
from tubeclient.wire.methods import Method


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.connected(prefetch=0)


def test_a_fetch_that_leaves_late_is_not_noted_behind_a_registration(bench: Bench, client: Client) -> None:
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


def test_what_expires_while_nobody_asks_for_long_is_an_error(bench: Bench) -> None:
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
