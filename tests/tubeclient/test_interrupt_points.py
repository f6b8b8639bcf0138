"""A caller may be interrupted before any line of a flow: nothing is stuck, no message is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tubeclient import simulation
from tests.tubeclient.consuming import Bench, Client
from tests.tubeclient.interrupting import interrupted_at_check
from tubeclient.errors import TubeError
from tubeclient.flows.effects import Flow
from tubeclient.flows.message_pack import Delivery

CALLS: dict[str, Callable[[Client, Delivery], Flow[Any]]] = {
    "get": lambda client, _: client.fetcher.get(timeout_ms=1_000),
    "get after a rest": lambda client, _: client.fetcher.get(timeout_ms=1_000),
    "get from a taken partition": lambda client, _: client.fetcher.get(timeout_ms=1_000),
    "confirm": lambda client, delivery: client.fetcher.confirm(delivery, consumed=True),
    "confirm in a lost partition": lambda client, delivery: client.fetcher.confirm(delivery, consumed=True),
    "connect another": lambda client, _: client.registrar.connect(
        client.bench.view, client.bench.key(1), 0, timeout_ms=0
    ),
    "connect an occupied one": lambda client, _: client.registrar.connect(
        client.bench.view, client.bench.key(1), 0, timeout_ms=0
    ),
    "seek": lambda client, _: client.registrar.connect(client.bench.view, client.bench.key(), 0, timeout_ms=0),
    "disconnect": lambda client, _: client.registrar.disconnect(client.bench.key(), wait_ms=100),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_point_of_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """All messages are read and given back, wherever a call is interrupted."""
    monkeypatch.setattr(simulation, "VIRTUAL_LIMIT_MS", 60_000)
    stuck = []
    for number in itertools.count():
        bench = Bench(tmp_path / str(number), partitions=1, stores=2)
        bench.brokers[1].faults.half_packs = True
        bench.send(8)
        client = bench.client(prefetch=0 if "taken" in name else 1, confirm_timeout_ms=5_000)
        first = _prepared(client, name)
        confirmed = _confirmed(bench) | (set(first.bodies) if "confirm" in name else set())
        call = client.registrar.guarded(CALLS[name](client, first))
        interrupted = bench.simulation.finish(interrupted_at_check(call, number), on_event=client.handle)
        bench.simulation.run(20_000)
        if not _all_is_read(client, confirmed):
            stuck.append(number)
        if not interrupted:
            break
    assert number > 20
    assert stuck == []


def _prepared(client: Client, name: str) -> Delivery:
    """Bring a client to where the call begins. Returns its pack."""
    bench = client.bench
    client.connect(bench.key())
    if name not in ("connect another", "connect an occupied one"):
        client.connect(bench.key(1))
    first = client.get()
    if name == "get after a rest":
        client.confirm(first)
        client.drain()
        bench.send(8)
    if "occupied" in name or "taken" in name:
        bench.brokers[1].ownership.release(bench.cursor(bench.key(1)))
        rival = bench.client("rival")
        rival.connect(bench.key(1))
        rival.stand_still()
        bench.simulation.at(5_000, lambda: bench.brokers[1].ownership.release(bench.cursor(bench.key(1))))
    if "lost" in name:
        for key in bench.view.partitions():
            bench.brokers[1].ownership.release(bench.cursor(key))
            bench.brokers[1].offsets.commit(bench.cursor(key), consumed=False)
    return first


def _confirmed(bench: Bench) -> set[bytes]:
    """What the group need not read again."""
    counts = {key: (bench.committed(key) or 0) // 28 for key in bench.view.partitions()}
    return {body for key, count in counts.items() for body in bench.of(key)[:count]}


def _all_is_read(client: Client, confirmed: set[bytes]) -> bool:
    """Whether every message is read but those that are confirmed, and each partition can be given back."""
    bench = client.bench
    try:
        for key in set(bench.view.partitions()) - set(client.held()):
            client.connect(key)
        read = set(client.drain())
        given_back = [client.disconnect(key) for key in bench.view.partitions()]
    except (AssertionError, TubeError):
        return False
    all_committed = all(bench.committed(key) == len(bench.of(key)) * 28 for key in bench.view.partitions())
    return all(given_back) and all_committed and read | confirmed >= {body for _, body in bench.sent}
