"""A consumer whose requests reach the broker long after their connection broke; on simulated brokers."""

from __future__ import annotations

import pytest

from tests.tubeclient.consuming import Bench, Client
from tests.tubeclient.interrupting import interrupted_in
from tubeclient.errors import TransportError
from tubeclient.flows.effects import Effect, Receive, SendAll
from tubeclient.flows.read_plan import BootstrapOffset
from tubeclient.flows.registrar import Lost
from tubeclient.wire.methods import Method

LATE_MS = 3_000


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.connected(prefetch=0)


def test_fetch_while_pack_is_out(bench: Bench, client: Client) -> None:
    """It may go further, as more has come meanwhile; the pack's commit would cover what nobody was handed."""
    bench.simulation.let_come_late(Method.GET_MESSAGES, LATE_MS)
    pack = client.get()
    bench.send(40)
    bench.simulation.run(LATE_MS)
    assert client.confirm(pack) == len(pack) * 28
    assert pack.bodies + client.drain() == bench.of(bench.key())
    assert client.events_of(Lost) == []


def test_committing_fetch_while_pack_is_out(bench: Bench, client: Client) -> None:
    """A late fetch that commits does not confirm the pack that is out."""
    rest = client.drain()
    bench.simulation.run(2_000)
    bench.simulation.let_come_late(Method.GET_MESSAGES, LATE_MS)  # it commits what the empty answer before it passed
    assert client.poll() is None
    bench.send(40)
    pack = client.get()
    bench.simulation.run(LATE_MS)
    assert bench.committed(bench.key()) == pack.start == len(rest) * 28
    client.confirm(pack)
    assert rest + pack.bodies + client.drain() == bench.of(bench.key())


def test_commit_of_repeated_pack(bench: Bench, client: Client) -> None:
    """A late commit does not confirm the same pack after it is delivered again."""
    bench.simulation.let_come_late(Method.COMMIT_OFFSET, LATE_MS)
    pack = client.get()
    with pytest.raises(TransportError):
        client.confirm(pack)
    again = client.get()
    assert again.bodies == pack.bodies
    bench.simulation.run(LATE_MS)
    assert bench.committed(bench.key()) == 0
    client.confirm(again)
    assert again.bodies + client.drain() == bench.of(bench.key())


def test_fetch_open_at_release(bench: Bench) -> None:
    """Nobody has looked yet what became of it, and the partition is given back over another connection."""
    client = bench.connected(prefetch=1)
    first = client.get()
    bench.simulation.let_come_late(Method.GET_MESSAGES, 4 * LATE_MS)
    client.confirm(first)  # a fetch leaves behind it
    bench.simulation.run(3 * LATE_MS)  # a heartbeat makes the connection
    client.disconnect(bench.key())
    client.connect(bench.key(), timeout_ms=1_000)
    second = client.get()
    bench.send(40)
    bench.simulation.run(2 * LATE_MS)
    client.confirm(second)
    assert first.bodies + second.bodies + client.drain() == bench.of(bench.key())


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("effect", [SendAll, Receive])
def test_interrupted_commit_while_pack_is_out(bench: Bench, effect: type[Effect], prefetch: int) -> None:
    """With `prefetch`, a fetch leaves behind it."""
    client = bench.connected(prefetch=prefetch)
    pack = client.get()
    bench.simulation.let_come_late(Method.COMMIT_OFFSET, LATE_MS)
    call = client.registrar.guarded(client.fetcher.confirm(pack, consumed=True))
    bench.simulation.finish(interrupted_in(call, effect))
    again = client.get()
    assert again.bodies == pack.bodies
    bench.simulation.run(LATE_MS)
    assert bench.committed(bench.key()) == 0
    client.confirm(again)
    assert again.bodies + client.drain() == bench.of(bench.key())


def test_a_late_registration_moves_nobody(bench: Bench, client: Client) -> None:
    bench.simulation.let_come_late(Method.PARTITION_REGISTER, LATE_MS)
    with pytest.raises(TransportError):
        client.connect(bench.key(), BootstrapOffset.LATEST)
    assert client.connect(bench.key(), 0, timeout_ms=1_000) == 0
    pack = client.get()
    bench.simulation.run(LATE_MS)
    client.confirm(pack)
    assert pack.bodies + client.drain() == bench.of(bench.key())
    assert client.events_of(Lost) == []


def test_release_after_reconnect(bench: Bench, client: Client) -> None:
    """A late release takes nothing from a client that has connected again."""
    bench.simulation.let_come_late(Method.PARTITION_REGISTER, LATE_MS)
    assert client.disconnect(bench.key())
    client.connect(bench.key(), timeout_ms=1_000)
    pack = client.get()
    bench.simulation.run(LATE_MS)
    client.confirm(pack)
    assert pack.bodies + client.drain() == bench.of(bench.key())
