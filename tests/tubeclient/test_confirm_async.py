"""Confirming without waiting for the broker's answer; on simulated brokers."""

from __future__ import annotations

from tests.tubeclient.consuming import Bench, Client
from tubeclient.errors import StalePack
from tubeclient.flows.consume import Unconfirmed
from tubeclient.wire.methods import Method


def drain(client: Client) -> list[bytes]:
    bodies: list[bytes] = []
    while (delivery := client.poll(timeout_ms=15_000)) is not None:
        bodies += delivery.bodies
        client.confirm_async(delivery)
    return bodies


def test_all_is_read_once_and_confirmed(bench: Bench, client: Client) -> None:
    assert drain(client) == bench.of(bench.key())
    assert bench.committed(bench.key()) == len(bench.of(bench.key())) * 28
    holding = client.registrations.holdings.by_key[bench.key()]
    assert holding.position.confirmed == holding.position.end == len(bench.of(bench.key())) * 28
    assert client.events_of(Unconfirmed) == []


def test_a_lost_answer_is_found_out_about(bench: Bench, client: Client) -> None:
    bench.simulation.lose(Method.COMMIT_OFFSET, answer=True)
    assert drain(client) == bench.of(bench.key())
    assert client.events_of(Unconfirmed) == []


def test_a_lost_commit_is_told_of_and_its_messages_come_again(bench: Bench, client: Client) -> None:
    first = client.get()
    bench.simulation.lose(Method.COMMIT_OFFSET, answer=False)
    client.confirm_async(first)
    assert drain(client) == bench.of(bench.key())
    [event] = client.events_of(Unconfirmed)
    assert event.delivery is first
    assert isinstance(event.error, StalePack)


def test_what_is_on_its_way_counts_when_the_partition_is_given_back(bench: Bench, client: Client) -> None:
    delivery = client.get()
    client.confirm_async(delivery)
    client.disconnect(bench.key())
    assert bench.client("rival").connect(bench.key()) == len(delivery) * 28
    assert client.poll() is None
    assert client.events_of(Unconfirmed) == []


def test_the_answers_can_be_waited_for(bench: Bench, client: Client) -> None:
    assert client.do(client.consumption.wait_confirmed(0)) is True
    delivery = client.get()
    client.confirm_async(delivery)
    holding = client.registrations.holdings.by_key[bench.key()]
    assert holding.position.confirmed == 0
    assert client.do(client.consumption.wait_confirmed(0)) is False
    assert client.do(client.consumption.wait_confirmed(1_000)) is True
    assert holding.position.confirmed == len(delivery) * 28
    bench.simulation.lose(Method.COMMIT_OFFSET, answer=True)
    client.confirm_async(client.get())
    assert client.do(client.consumption.wait_confirmed(5_000)) is False
    assert client.do(client.consumption.wait_confirmed(20_000)) is True
