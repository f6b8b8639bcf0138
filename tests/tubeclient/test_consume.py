"""Consumers of a group on simulated brokers: whatever the network does, each message is confirmed by somebody once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tubeclient.consuming import LATE, STORMY, Bench, fail_if_dead
from tests.tubeclient.simulation import Actor, Weather
from tubeclient.assignment import assign
from tubeclient.keys import PartitionKey


def start(
    bench: Bench,
    assignments: Iterable[Callable[[list[PartitionKey]], Sequence[PartitionKey]]],
    got: list[tuple[PartitionKey, bytes]],
    *,
    workers: int,
    prefetch: int,
) -> list[Actor]:
    """Start a client for each assignment, with so many workers that put what they read in `got`."""
    actors = []
    for number, assignment in enumerate(assignments):
        client = bench.client(f"client-{number}", prefetch=prefetch)
        flows = [client.balance(assignment), *(client.work(got) for _ in range(workers))]
        actors += [bench.simulation.start(flow, on_event=client.handle) for flow in flows]
    return actors


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 32),
    brokers=st.integers(1, 2),
    stores=st.integers(1, 2),
    partitions=st.integers(1, 3),
    clients=st.integers(1, 3),
    workers=st.integers(1, 3),
    prefetch=st.integers(0, 3),
    half=st.booleans(),
    advancing=st.booleans(),
)
def test_calm_network(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    brokers: int,
    stores: int,
    partitions: int,
    clients: int,
    workers: int,
    prefetch: int,
    half: bool,
    advancing: bool,
) -> None:
    """Each message is read once and in order if the network has no faults."""
    folder = tmp_path_factory.mktemp("calm")
    bench = Bench(folder, brokers=brokers, stores=stores, partitions=partitions, seed=seed)
    for broker in bench.brokers.values():
        broker.faults.half_packs, broker.faults.advancing_404 = half, advancing
    bench.send(200)
    got: list[tuple[PartitionKey, bytes]] = []

    def assignment(number: int, keys: list[PartitionKey]) -> list[PartitionKey]:
        return assign("modulo", keys, clients)[number]

    assignments = [partial(assignment, number) for number in range(clients)]
    actors = start(bench, assignments, got, workers=workers, prefetch=prefetch)
    for moment in range(5):
        bench.simulation.at(moment * 300 + 200, lambda: bench.send(40))
    bench.simulation.run(2_000)
    bench.run_until_read(got)
    fail_if_dead(actors)
    assert not bench.unsure
    for key in bench.view.partitions():
        assert [body for k, body in got if k == key] == [body for k, body in bench.sent if k == key]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 32),
    clients=st.integers(1, 3),
    workers=st.integers(1, 3),
    prefetch=st.integers(0, 3),
    advancing=st.booleans(),
    moving=st.booleans(),
    weather=st.sampled_from([STORMY, LATE]),
)
@example(  # a commit comes late, and a fetch over a newer connection overtakes it
    seed=392, clients=1, workers=3, prefetch=1, advancing=False, moving=False, weather=LATE
)
@example(  # a partition is given back with an open fetch, which comes when it is held again
    seed=540470271, clients=2, workers=3, prefetch=1, advancing=False, moving=True, weather=LATE
)
def test_stormy_network(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    clients: int,
    workers: int,
    prefetch: int,
    advancing: bool,
    moving: bool,
    weather: Weather,
) -> None:
    """Network faults lose no message, and only messages that could not be confirmed repeat."""
    bench = Bench(tmp_path_factory.mktemp("storm"), brokers=2, partitions=3, seed=seed, weather=weather)
    for broker in bench.brokers.values():
        broker.faults.advancing_404 = advancing
    bench.send(200)
    got: list[tuple[PartitionKey, bytes]] = []

    def assignment(number: int, keys: list[PartitionKey]) -> list[PartitionKey]:
        # Nodes change places every few seconds where partitions are to move.
        turn = int(bench.simulation.now_ms // 5_000) if moving else 0
        return assign("modulo", keys, clients)[(number + turn) % clients]

    assignments = [partial(assignment, number) for number in range(clients)]
    actors = start(bench, assignments, got, workers=workers, prefetch=prefetch)
    for moment in range(5):
        bench.simulation.at(moment * 3_000 + 200, lambda: bench.send(40))
    bench.simulation.run(16_000)
    bench.run_until_read(got)
    fail_if_dead(actors)
    bodies = [body for _, body in got]
    assert set(bodies) | bench.unsure == {body for _, body in bench.sent}
    if not (moving and weather is LATE):
        # Else one that could not give a partition back goes on, when it has it again, where it stood: a broker that was
        # stopped meanwhile looks the same as another client that read on and gave it back.
        assert {body for body in bodies if bodies.count(body) > 1} <= bench.unsure
