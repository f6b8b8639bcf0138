"""What confirming does, and what becomes of packs that are not confirmed; on simulated brokers."""

from __future__ import annotations

import pytest

from tests.tubeclient.consuming import LOOKERS, Bench, Client
from tubeclient.errors import DataLoss, StalePack, TransportError
from tubeclient.keys import PartitionKey
from tubeclient.wire.methods import Method


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.connected(confirm_timeout_ms=30_000)


def test_a_pack_counts_once(bench: Bench, client: Client) -> None:
    delivery = client.get()
    client.confirm(delivery)
    with pytest.raises(StalePack, match=f"{bench.key()} can no longer be confirmed: it already was, or "):
        client.confirm(delivery)


def test_a_lost_answer_to_a_commit_is_found_out_about(bench: Bench, client: Client) -> None:
    """The commit was done: the messages do not come again."""
    delivery = client.get()
    lose_answer(bench, Method.COMMIT_OFFSET)
    with pytest.raises(TransportError):
        client.confirm(delivery)
    assert delivery.bodies + client.drain() == bench.of(bench.key())


def test_a_lost_commit_is_found_out_about(bench: Bench, client: Client) -> None:
    """The commit was not done: the messages come again."""
    delivery = client.get()
    lose_request(bench, Method.COMMIT_OFFSET)
    with pytest.raises(TransportError):
        client.confirm(delivery)
    assert client.drain() == bench.of(bench.key())


def test_broker_forgets_commits(bench: Bench, client: Client) -> None:
    """As after a crash: positions are written down every few seconds."""
    delivery = client.get()
    client.confirm(delivery)
    forget(bench, bench.key())
    bench.brokers[1].offsets.reset(bench.cursor(bench.key()), 28, bench.store(bench.key()).bounds)
    bench.simulation.run(9_000)  # the next heartbeat hears of it
    assert bench.committed(bench.key()) == len(delivery) * 28
    assert client.drain() == bench.of(bench.key())[len(delivery) :]


def test_clean_stop_confirms_unasked(bench: Bench, client: Client) -> None:
    """A broker that stops cleanly confirms all it has noted, whether it was handed out or dealt with, or not."""
    out = client.get()
    bench.restart_cleanly(bench.key())
    bench.simulation.run(9_000)
    assert client.drain() == bench.of(bench.key())
    with pytest.raises(StalePack):
        client.confirm(out)


@pytest.mark.parametrize("stop_after_ms", [2_000, 9_500])  # before and after a heartbeat that would notice it
def test_clean_stop_during_commit(bench: Bench, stop_after_ms: int) -> None:
    """No message is lost if the broker stops cleanly during a commit."""
    client = bench.connected()  # the next fetch follows the commit, and the broker notes it
    first = client.get()
    lose_answer(bench, Method.COMMIT_OFFSET)
    bench.simulation.at(stop_after_ms, lambda: bench.restart_cleanly(bench.key()))
    with pytest.raises((StalePack, TransportError)):
        client.confirm(first)
    assert client.drain() == bench.of(bench.key())


def test_expiry_while_unregistered(bench: Bench) -> None:
    """DataLoss is raised if messages expire while the registration is lost."""
    client = bench.connected(reader_groups=LOOKERS)
    delivery = client.get()
    forget(bench, bench.key())
    bench.store(bench.key()).expire(10 * 28)
    bench.simulation.run(9_000)
    with pytest.raises(DataLoss, match="up to 10 messages"):
        client.get()
    assert delivery.start == 0
    assert client.drain() == bench.of(bench.key())[10:]


def test_partition_during_release(bench: Bench, client: Client) -> None:
    """A partition gives no more packs while it is being released."""
    delivery = client.get()
    waiting = [bench.simulation.start(client.fetcher.get(timeout_ms=2_000)) for _ in range(3)]
    leaving = bench.simulation.start(client.registrar.disconnect(bench.key(), wait_ms=3_000))
    bench.simulation.run(500)
    fetches = bench.simulation.calls.count(Method.GET_MESSAGES)
    client.confirm(delivery)
    bench.simulation.run(5_000)
    assert bench.simulation.calls.count(Method.GET_MESSAGES) == fetches
    assert leaving.result is True
    assert [actor.result for actor in waiting] == [None] * 3
    assert bench.committed(bench.key()) == len(delivery) * 28


def forget(bench: Bench, key: PartitionKey) -> None:
    """The broker knows no owner of the partition any more."""
    broker = bench.brokers[key.broker_id]
    broker.ownership.release(bench.cursor(key))
    broker.offsets.commit(bench.cursor(key), consumed=False)


def lose_request(bench: Bench, method: Method) -> None:
    bench.simulation.lose(method, answer=False)


def lose_answer(bench: Bench, method: Method) -> None:
    bench.simulation.lose(method, answer=True)


@pytest.mark.parametrize("meanwhile", ["disconnect", "connect", "jump"])
def test_commit_during_partition_change(bench: Bench, client: Client, meanwhile: str) -> None:
    """A commit that the broker has succeeds even if the partition is released or moved meanwhile."""
    delivery, registrar = client.get(), client.registrar
    end = delivery.start + len(delivery) * 28
    flows = {
        "disconnect": lambda: registrar.disconnect(bench.key(), wait_ms=0),
        "connect": lambda: registrar.connect(bench.view, bench.key(), end, timeout_ms=0),
        "jump": registrar.jump_to_latest,
    }
    confirming = bench.simulation.start(client.fetcher.confirm(delivery, consumed=True))
    bench.simulation.start(flows[meanwhile](), after_ms=0.3, on_event=client.handle)
    bench.simulation.run(5_000)
    assert (confirming.error, confirming.result) == (None, end)


def test_pack_after_interrupted_get(bench: Bench, client: Client) -> None:
    """A pack can still be confirmed after another call is interrupted."""
    delivery = client.get()
    asking = client.registrar.guarded(client.fetcher.get(timeout_ms=1_000))
    next(asking)
    with pytest.raises(KeyboardInterrupt):
        asking.throw(KeyboardInterrupt())
    client.confirm(delivery)
    assert delivery.bodies + client.drain() == bench.of(bench.key())
