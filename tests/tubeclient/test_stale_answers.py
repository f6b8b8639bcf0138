"""A fetch whose answer is there, and whose partition is moved before anybody looks at it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.tubeclient.consuming import Bench, Client
from tubeclient.errors import ConnectionLost
from tubeclient.flows.effects import Receive

MOVED_TO = 7 * 28


@pytest.fixture
def client(bench: Bench) -> Client:
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


def test_its_messages_are_not_handed_out(bench: Bench, client: Client) -> None:
    taking, answer = moved_meanwhile(bench, client)
    with pytest.raises(StopIteration) as end:
        taking.send(answer)
    assert end.value.value is None
    assert client.drain() == bench.of(bench.key())[7:]


def test_its_failure_says_nothing_of_the_broker(bench: Bench, client: Client) -> None:
    taking, _ = moved_meanwhile(bench, client)
    with pytest.raises(StopIteration) as end:
        taking.throw(ConnectionLost("it broke"))
    assert end.value.value is None
    assert client.registrations.holdings.lines[1].up
    assert client.drain() == bench.of(bench.key())[7:]
