"""A partition taken up again after its broker was stopped cleanly, which confirms what it had noted, unasked.

What was handed out and not confirmed comes again, whatever befalls the registrations that this takes.
"""

from __future__ import annotations

import pytest

from tests.tubeclient.consuming import Bench, Client
from tubeclient.errors import StalePack
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.registrar import Lost
from tubeclient.wire.methods import Method


@pytest.fixture
def out(bench: Bench, client: Client) -> Delivery:
    """The second pack, out; the first one is confirmed."""
    client.confirm(client.get())
    return client.get()


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
def test_a_client_that_stood_still_meanwhile(bench: Bench, client: Client, out: Delivery, stall_ms: int) -> None:
    client.stand_still()
    bench.simulation.at(10_000, lambda: bench.restart_cleanly(bench.key()))
    bench.simulation.at(stall_ms, lambda: None)
    bench.simulation.run(stall_ms)
    client.go_on()
    assert_nothing_is_missing(bench, client, out)


@pytest.mark.parametrize("code", [400, 403, 500, 503])
@pytest.mark.parametrize("by", ["heartbeat", "confirmation"])
def test_a_broker_that_refuses_it(bench: Bench, client: Client, out: Delivery, code: int, by: str) -> None:
    bench.restart_cleanly(bench.key())
    bench.brokers[1].faults.force(Method.PARTITION_REGISTER, code)
    if by == "heartbeat":
        bench.simulation.run(9_000)
    assert_nothing_is_missing(bench, client, out)


@pytest.mark.parametrize("answer", [False, True], ids=["request", "answer"])
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_a_registration_that_is_lost(bench: Bench, client: Client, out: Delivery, before: int, answer: bool) -> None:
    bench.restart_cleanly(bench.key())
    for _ in range(before):
        bench.simulation.let_pass(Method.PARTITION_REGISTER)
    bench.simulation.lose(Method.PARTITION_REGISTER, answer=answer)
    bench.simulation.run(40_000)
    assert_nothing_is_missing(bench, client, out)


def test_what_another_client_has_taken_is_left_to_it(bench: Bench, client: Client, out: Delivery) -> None:
    bench.restart_cleanly(bench.key())
    other = bench.client("other")
    other.connect(bench.key())
    bench.brokers[1].faults.force(Method.COMMIT_OFFSET, 411)  # as a moment before the other one came
    with pytest.raises(StalePack):
        client.confirm(out)
    other.drain()
    other.disconnect(bench.key())
    assert client.connect(bench.key()) == 28 * len(bench.of(bench.key()))
    assert client.registrar.left == {}
