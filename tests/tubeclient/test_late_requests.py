"""A consumer whose requests reach the broker long after their connection broke; on simulated brokers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.tubeclient.consuming import Bench, Client
from tests.tubeclient.interrupting import interrupted_in
from tubeclient.errors import ConnectionLost, ProtocolError, StalePack, TransportError
from tubeclient.flows.effects import Flow, Receive, Send, SendAll
from tubeclient.flows.read_plan import BootstrapOffset
from tubeclient.flows.registrations import Lost
from tubeclient.wire.methods import Method

LATE_MS = 3_000


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.connected(prefetch=0)


def test_a_late_fetch_is_not_noted_on_top_of_the_pack_that_is_out(bench: Bench, client: Client) -> None:
    """It may go further, as more has come meanwhile; the pack's commit would cover what nobody was handed."""
    bench.simulation.let_come_late(Method.GET_MESSAGES, LATE_MS)
    pack = client.get()
    bench.send(40)
    bench.simulation.run(LATE_MS)
    assert client.confirm(pack) == len(pack) * 28
    assert pack.bodies + client.drain() == bench.of(bench.key())
    assert client.events_of(Lost) == []


def test_a_late_fetch_that_commits_does_not_confirm_the_pack_that_is_out(bench: Bench, client: Client) -> None:
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


def test_a_late_commit_does_not_confirm_the_same_pack_come_again(bench: Bench, client: Client) -> None:
    bench.simulation.let_come_late(Method.COMMIT_OFFSET, LATE_MS)
    pack = client.get()
    with pytest.raises(StalePack):
        client.confirm(pack)
    again = client.get()
    assert again.bodies == pack.bodies
    bench.simulation.run(LATE_MS)
    assert bench.committed(bench.key()) == 0
    client.confirm(again)
    assert again.bodies + client.drain() == bench.of(bench.key())


def test_a_late_commit_covers_no_fetch_that_went_over_another_connection(tmp_path: Path) -> None:
    """Nobody looks what became of the commit until it has come; heartbeats go over the new connection."""
    bench = Bench(tmp_path, brokers=2)
    bench.send(20)
    client = bench.connected(prefetch=1)
    client.connect(bench.key(1))
    packs = [client.get(), client.get()]
    client.connect(bench.key(2))  # its turn is next: no fetch leaves in the write of a commit at the other broker
    bench.send(40)
    bench.simulation.let_come_late(Method.COMMIT_OFFSET, 4 * LATE_MS)
    for pack in packs:
        client.confirm_async(pack)
    bench.simulation.run(5 * LATE_MS)
    client.connect(bench.key(3))
    assert sorted(packs[0].bodies + packs[1].bodies + client.drain()) == sorted(body for _, body in bench.sent)


def test_a_fetch_that_was_open_when_its_partition_was_given_back_moves_nobody(bench: Bench) -> None:
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


def test_a_fetch_that_was_open_when_its_partition_was_lost_moves_nobody(bench: Bench) -> None:
    """Its client gets the partition again before the fetch comes."""
    client, other = bench.connected(prefetch=1), bench.client("two")
    first = client.get()
    bench.simulation.let_come_late(Method.GET_MESSAGES, 4 * LATE_MS)
    client.confirm(first)  # a fetch leaves behind it
    bench.brokers[1].ownership.release(bench.cursor(bench.key()))
    other.connect(bench.key())
    bench.simulation.run(3 * LATE_MS)  # a heartbeat shows it
    assert [lost.partition for lost in client.events_of(Lost)] == [bench.key()]
    other.disconnect(bench.key())
    client.connect(bench.key(), timeout_ms=1_000)
    second = client.get()
    bench.send(40)
    bench.simulation.run(2 * LATE_MS)
    client.confirm(second)
    assert first.bodies + second.bodies + client.drain() == bench.of(bench.key())


def test_a_fetch_whose_sending_was_interrupted_is_not_noted_on_top_of_a_pack(bench: Bench, client: Client) -> None:
    """Nobody knows if it was sent. It may come when the next pack is out."""
    bench.simulation.let_come_late(Method.GET_MESSAGES, LATE_MS)
    get = client.consumption.get(timeout_ms=1_000)
    bench.simulation.finish(interrupted_in(get, SendAll))
    pack = client.get()
    bench.send(40)
    bench.simulation.run(LATE_MS)
    client.confirm(pack)
    assert pack.bodies + client.drain() == bench.of(bench.key())


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("interrupted", ["sending", "sending without waiting", "waiting", "taking the answer"])
def test_a_commit_that_was_interrupted_does_not_confirm_a_pack_that_is_out(
    bench: Bench, interrupted: str, prefetch: int
) -> None:
    """With `prefetch`, a fetch leaves behind it."""
    client = bench.connected(prefetch=prefetch)
    pack = client.get()
    bench.simulation.let_come_late(Method.COMMIT_OFFSET, LATE_MS)
    call: Flow[Any] = client.consumption.confirm(pack, consumed=True)
    if interrupted == "sending without waiting":
        call = client.consumption.confirm_async(pack, consumed=True)
    elif interrupted == "taking the answer":
        client.confirm_async(pack)
        bench.simulation.run(10)
        call = client.consumption.get(timeout_ms=0)
    bench.simulation.finish(interrupted_in(call, SendAll if "sending" in interrupted else Receive))
    again = client.get()
    assert again.bodies == pack.bodies
    bench.simulation.run(LATE_MS)
    assert bench.committed(bench.key()) == 0
    client.confirm(again)
    assert again.bodies + client.drain() == bench.of(bench.key())


def test_a_registration_that_was_interrupted_moves_nobody(bench: Bench, client: Client) -> None:
    bench.simulation.let_come_late(Method.PARTITION_REGISTER, LATE_MS)
    connect = client.registrations.connect(bench.view, bench.key(), BootstrapOffset.LATEST, timeout_ms=0)
    bench.simulation.finish(interrupted_in(connect, Send))
    pack = client.get()
    bench.simulation.run(LATE_MS)
    client.confirm(pack)
    assert pack.bodies + client.drain() == bench.of(bench.key())


def test_a_giving_back_that_was_interrupted_takes_nothing_from_who_has_come_again(bench: Bench, client: Client) -> None:
    bench.simulation.let_come_late(Method.PARTITION_REGISTER, LATE_MS)
    disconnect = client.registrations.disconnect(bench.key(), wait_ms=0)
    bench.simulation.finish(interrupted_in(disconnect, Send))
    client.connect(bench.key(), timeout_ms=1_000)
    pack = client.get()
    bench.simulation.run(LATE_MS)
    client.confirm(pack)
    assert pack.bodies + client.drain() == bench.of(bench.key())


def test_a_fetch_may_come_late_if_what_came_instead_of_its_answer_is_not_tubemq(bench: Bench, client: Client) -> None:
    """Nobody knows if the broker had the fetch when it wrote that."""
    bench.simulation.why_it_broke = ProtocolError("wrong begin token")
    bench.simulation.let_come_late(Method.GET_MESSAGES, 4 * LATE_MS)
    pack = client.get(timeout_ms=10_000)
    bench.send(40)
    bench.simulation.run(4 * LATE_MS)
    client.confirm(pack)
    assert pack.bodies + client.drain() == bench.of(bench.key())


def test_a_commit_may_come_late_if_what_came_instead_of_its_answer_is_not_tubemq(bench: Bench, client: Client) -> None:
    bench.simulation.why_it_broke = ProtocolError("wrong begin token")
    bench.simulation.let_come_late(Method.COMMIT_OFFSET, LATE_MS)
    pack = client.get()
    with pytest.raises(StalePack):
        client.confirm(pack)
    again = client.get()
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


def test_a_late_giving_back_takes_nothing_from_who_has_come_again(bench: Bench, client: Client) -> None:
    bench.simulation.let_come_late(Method.PARTITION_REGISTER, LATE_MS)
    assert client.disconnect(bench.key())
    client.connect(bench.key(), timeout_ms=1_000)
    pack = client.get()
    bench.simulation.run(LATE_MS)
    client.confirm(pack)
    assert pack.bodies + client.drain() == bench.of(bench.key())


def test_the_broker_knows_the_client_by_its_own_id_until_something_goes_wrong(bench: Bench, client: Client) -> None:
    def owner() -> str | None:
        reader = bench.brokers[1].ownership.owner(bench.cursor(bench.key()))
        return None if reader is None else reader.client_id

    assert owner() == "one"
    bench.simulation.let_come_late(Method.GET_MESSAGES, LATE_MS)
    client.get()
    assert owner() == "one.1"
    bench.simulation.run(120_000)  # its lease is kept under that id
    assert owner() == "one.1"
    client.disconnect(bench.key())
    assert owner() is None


MOVED_TO = 7 * 28


@pytest.fixture
def ahead(bench: Bench) -> Client:
    return bench.connected(prefetch=1)


def moved_meanwhile(bench: Bench, client: Client) -> tuple[Generator[Any, Any, Any], Any]:
    """What is left of taking an answer from before the partition was moved, and that answer."""
    client.do(client.consumption.fetching.send_fetches(bench.simulation.now_ms))
    bench.simulation.run(100)
    (holding,) = client.registrations.holdings.turns.fetching
    taking = client.consumption.fetching._take_answer(holding)
    asked = next(taking)
    assert isinstance(asked, Receive)
    assert client.connect(bench.key(), MOVED_TO) == MOVED_TO
    ticket: Any = asked.ticket
    assert ticket.message.errCode == 200
    return taking, ticket.message


def test_messages_of_an_answer_from_before_a_move_are_not_handed_out(bench: Bench, ahead: Client) -> None:
    taking, answer = moved_meanwhile(bench, ahead)
    with pytest.raises(StopIteration) as end:
        taking.send(answer)
    assert end.value.value is None
    assert ahead.drain() == bench.of(bench.key())[7:]


def test_a_failure_from_before_a_move_says_nothing_of_the_broker(bench: Bench, ahead: Client) -> None:
    taking, _ = moved_meanwhile(bench, ahead)
    with pytest.raises(StopIteration) as end:
        taking.throw(ConnectionLost("it broke"))
    assert end.value.value is None
    assert ahead.registrations.holdings.lines[1].up
    assert ahead.drain() == bench.of(bench.key())[7:]
