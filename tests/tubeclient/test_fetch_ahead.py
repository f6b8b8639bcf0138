"""How many packs a consumer asks for before they are wanted; on simulated brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tubeclient.consuming import Bench, Client
from tubeclient.wire.methods import Method

PARTITIONS = 6


def started(folder: Path, prefetch: int) -> Client:
    bench = Bench(folder, partitions=1, stores=PARTITIONS)
    bench.send(60)
    client = bench.client(prefetch=prefetch)
    for number in range(PARTITIONS):
        client.connect(bench.key(number))
    return client


def under_way(client: Client) -> int:
    """Packs asked for, of which nobody has had any."""
    return len(client.registrations.holdings.fetching)


@pytest.mark.parametrize("prefetch", [0, 1, 2, 3])
def test_get_leaves_as_many_packs_under_way_as_prefetch_says(tmp_path: Path, prefetch: int) -> None:
    client = started(tmp_path, prefetch)
    client.get()
    assert under_way(client) == prefetch


@pytest.mark.parametrize(("prefetch", "afterwards"), [(0, 0), (1, 2), (2, 3), (3, 4)])
def test_a_confirmation_asks_for_one_more_unless_nothing_is_to_be_fetched_ahead(
    tmp_path: Path, prefetch: int, afterwards: int
) -> None:
    """Without it the broker would have nothing to do from the confirmation to the next get."""
    client = started(tmp_path, prefetch)
    client.confirm(client.get())
    assert under_way(client) == afterwards
    client.confirm(client.get())
    assert under_way(client) == afterwards


def test_a_confirmation_takes_no_fetch_of_its_broker_before_its_turn(tmp_path: Path) -> None:
    """Else partitions of brokers that have nothing to confirm would never be asked."""
    bench = Bench(tmp_path, brokers=2, partitions=1, stores=2)
    bench.send(60)
    client = bench.client(prefetch=1)
    here, other, there = bench.key(0), bench.key(1), bench.key(2)
    assert (here.broker_id, other.broker_id, there.broker_id) == (1, 1, 2)
    for key in (here, other, there):
        client.connect(key)
    delivery = client.get()
    bench.simulation.writes.clear()
    client.confirm(delivery)
    assert delivery.partition == here
    assert bench.simulation.writes == [(Method.COMMIT_OFFSET,), (Method.GET_MESSAGES,)]
    assert [holding.key for holding in client.registrations.holdings.fetching] == [other, there]
