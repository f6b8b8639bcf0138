"""How many packs a consumer asks for before they are wanted; on simulated brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tubeclient.consuming import Bench, Client

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
