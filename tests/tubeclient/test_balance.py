"""Rounds of balancing on simulated brokers: what is taken, what is given back, and what nobody waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq.common.refusal import Code
from tests.tubeclient.consuming import Bench, Client
from tests.tubeclient.simulation import RPC_TIMEOUT_MS, Actor
from tubeclient.errors import GroupForbidden, TransportError
from tubeclient.flows.registrar import Assigned
from tubeclient.wire.methods import Method

EVERYTHING = None


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two brokers with two partitions each: 1:clicks:0, 1:clicks:1, 2:clicks:0, 2:clicks:1."""
    return Bench(tmp_path, brokers=2)


def round_of(client: Client, ours: Any = EVERYTHING, offsets: Any = None, **options: Any) -> Any:
    view = client.bench.view
    options.setdefault("release_wait_ms", 3_000)
    assignment = view.partitions() if ours is EVERYTHING else ours
    return client.registrar.balance(view, assignment, offsets or {}, **options)


def held(client: Client) -> list[str]:
    return [str(key) for key in client.held()]


def silence(bench: Bench, *broker_ids: int) -> None:
    """Requests to these brokers are lost from now on."""
    addresses = {bench.infos[broker_id].address for broker_id in broker_ids}
    answer = bench.simulation._answer

    def deaf(effect: Any) -> Any:
        calm = bench.simulation.weather
        bench.simulation.weather = type(calm)(lose_request=1.0 if effect.address in addresses else 0.0)
        try:
            return answer(effect)
        finally:
            bench.simulation.weather = calm

    bench.simulation._answer = deaf  # type: ignore[method-assign]


def test_a_silent_broker_costs_the_time_of_one_call(bench: Bench) -> None:
    client = bench.client()
    silence(bench, 1)
    started = bench.simulation.now_ms
    refused = client.do(round_of(client))
    assert sorted(map(str, refused)) == ["1:clicks:0", "1:clicks:1"]
    assert all(isinstance(error, TransportError) for error in refused.values())
    assert held(client) == ["2:clicks:0", "2:clicks:1"]
    assert bench.simulation.now_ms - started < RPC_TIMEOUT_MS + 100


def start_release(client: Client, *, wait_ms: float) -> Actor:
    return client.bench.simulation.start(round_of(client, [], release_wait_ms=wait_ms), on_event=client.handle)


def test_a_release_waits_for_the_pack_that_is_out(bench: Bench) -> None:
    client = bench.client(prefetch=0)
    bench.send(40)
    client.do(round_of(client, [bench.key(0)]))
    delivery = client.get()
    release = start_release(client, wait_ms=3_000)
    bench.simulation.run(1_000)
    assert not release.done
    position = client.confirm(delivery)
    bench.simulation.run(300)
    assert release.done
    successor = bench.client("successor")
    successor.do(round_of(successor, [bench.key(0)]))
    (taken,) = (event for event in successor.events if isinstance(event, Assigned))
    assert taken.offset == position > delivery.start


@pytest.mark.parametrize("code", [Code.GROUP_FORBIDDEN, Code.BAD_REQUEST])
def test_permanent_refusal(bench: Bench, code: Code) -> None:
    """A round raises a refusal that another round would not change."""
    client = bench.client()
    bench.brokers[1].faults.force(Method.PARTITION_REGISTER, code)
    with pytest.raises(Exception, match=f"1:clicks:0.*{int(code)}") as caught:
        client.do(round_of(client))
    assert not getattr(caught.value, "retriable", True)
    assert isinstance(caught.value, GroupForbidden) is (code == Code.GROUP_FORBIDDEN)
    client.do(round_of(client))
    assert len(held(client)) == 4
