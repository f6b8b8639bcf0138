"""How many packs a consumer asks for before they are wanted; on simulated brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tubeclient.consuming import Bench, Client
from tubeclient.flows.holding import Phase

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
    return len(client.registrar.holdings.in_phase[Phase.FETCHING])


@pytest.mark.parametrize("prefetch", [0, 1, 2, 3])
def test_get_and_confirm_leave_as_many_packs_under_way_as_prefetch_says(tmp_path: Path, prefetch: int) -> None:
    client = started(tmp_path, prefetch)
    client.get()
    assert under_way(client) == prefetch
    client.confirm(client.get())
    assert under_way(client) == prefetch
