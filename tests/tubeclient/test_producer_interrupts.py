"""A producer's caller that is interrupted, before whatever line, loses no place and leaves no message to nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.interrupting import interrupted_at
from tests.tubeclient.stored import bodies
from tubeclient import ClientSettings, Producer

PLACES = 3

CALLS: dict[str, Callable[[Producer], object]] = {
    "submit": lambda producer: producer.submit("clicks", b"x"),
    "submit_many": lambda producer: producer.submit_many("clicks", [b"x"] * (PLACES + 2)),
    "send": lambda producer: producer.send("clicks", b"x"),
    "flush": lambda producer: producer.flush(),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_wherever_a_send_is_interrupted_every_place_comes_back(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, name: str
) -> None:
    with Producer(replace(settings, retry_limit_ms=250_000), max_in_flight=PLACES) as producer:
        producer.publish(["clicks"])
        producer.send("clicks", b"first")
        line = 0
        while interrupted_at(line, lambda: CALLS[name](producer)):
            line += 1
            producer.flush()  # what was taken is settled
        assert line > 5
        for future in producer.submit_many("clicks", [b"last"] * 2 * PLACES):
            assert future.result(60)
        producer.close(timeout_ms=0)  # nothing is on its way
    assert bodies(cluster)[b"last"] == 2 * PLACES


def test_wherever_publishing_is_interrupted_it_can_be_done_again(settings: ClientSettings) -> None:
    """With a connection: one that is being made is given back by Python."""
    line, interrupts = 0, True
    while interrupts:
        with Producer(settings) as producer:
            producer._pool.get(settings.master_servers[0])
            interrupts = interrupted_at(line, partial(producer.publish, ["clicks"]))
            producer.publish(["clicks"])
            assert producer.topics == ["clicks"]
            assert producer.send("clicks", b"x")
        line += 7  # of some hundreds


def test_wherever_closing_is_interrupted_it_can_be_done_again(
    cluster: EmbeddedTubeMQ, settings: ClientSettings
) -> None:
    """And the master knows the producer no longer, at once: it does not wait for itself, nor for the lease to end."""
    line, interrupts = 0, True
    while interrupts:
        producer = Producer(settings)
        producer.publish(["clicks"])
        sent = producer.submit("clicks", b"x")
        interrupts = interrupted_at(line, producer.close)
        began = monotonic()
        producer.close()
        assert monotonic() - began < settings.rpc_timeout_ms / 1000, f"interrupted at line {line}"
        assert sent.result(0)
        machine = cluster._master.machine
        assert machine is not None
        assert not machine.producers, f"interrupted at line {line}"
        line += 1
