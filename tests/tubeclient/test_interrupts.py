"""A caller that is interrupted, at whatever step, leaves no partition stuck; on simulated brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tubeclient.consuming import Bench, Client
from tests.tubeclient.interrupting import interrupted
from tubeclient.flows.effects import Flow
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.registrar import Assigned

CALLS: dict[str, Callable[[Client, Delivery], Flow[Any]]] = {
    "connect another": lambda client, _: client.registrar.connect(
        client.bench.view, client.bench.key(1), 0, timeout_ms=0
    ),
    "seek": lambda client, _: client.registrar.connect(client.bench.view, client.bench.key(), 28, timeout_ms=0),
    "disconnect": lambda client, _: client.registrar.disconnect(client.bench.key(), wait_ms=1_000),
    "get": lambda client, _: client.fetcher.get(timeout_ms=1_000),
    "confirm": lambda client, delivery: client.fetcher.confirm(delivery, consumed=True),
}


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(CALLS)),
    after=st.integers(0, 25),
    inside=st.booleans(),
    forgotten=st.booleans(),
    prefetch=st.integers(0, 2),
)
def test_each_call(
    tmp_path_factory: pytest.TempPathFactory, name: str, after: int, inside: bool, forgotten: bool, prefetch: int
) -> None:
    """Each partition goes on and can be given back, whatever call is interrupted."""
    bench = Bench(tmp_path_factory.mktemp("interrupts"), partitions=1, stores=2)
    bench.brokers[1].faults.half_packs = True
    bench.send(40)
    client = bench.client(prefetch=prefetch, confirm_timeout_ms=5_000)
    client.connect(bench.key())
    first = client.get()
    if name != "connect another":
        client.connect(bench.key(1))
    if forgotten:  # so that the call finds its registration lost
        bench.brokers[1].ownership.release(bench.cursor(bench.key()))
        bench.brokers[1].offsets.commit(bench.cursor(bench.key()), consumed=False)
    bench.simulation.finish(
        interrupted(client.registrar.guarded(CALLS[name](client, first)), after, inside), on_event=client.handle
    )
    assert set(client.registrar.holdings.by_key) <= {event.partition for event in client.events_of(Assigned)}
    bench.simulation.run(20_000)
    held = client.held()
    for key in bench.view.partitions():
        if key not in held:
            client.connect(key, timeout_ms=1_000)
    client.drain()
    for key in bench.view.partitions():
        assert bench.committed(key) == len(bench.of(key)) * 28
        assert client.disconnect(key)
        bench.client("rival").connect(key)
