"""A producer's caller that is interrupted, before whatever line, loses no place and leaves no message to nobody."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from types import FrameType

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.interrupting import interrupted_at
from tests.tubeclient.stored import bodies
from tubeclient import ClientSettings, Producer
from tubeclient.net.waiting import Outcome

PLACES = 3

CALLS: dict[str, Callable[[Producer], object]] = {
    "submit": lambda producer: producer.submit("clicks", b"x"),
    "submit_many": lambda producer: producer.submit_many("clicks", [b"x"] * (PLACES + 2)),
    "submit_many without room": lambda producer: producer.submit_many("clicks", [b"x"] * (PLACES + 2), timeout_ms=0),
    "send": lambda producer: producer.send("clicks", b"x"),
    "flush": lambda producer: producer.flush(),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_send_at_any_line(cluster: EmbeddedTubeMQ, settings: ClientSettings, name: str) -> None:
    """All places are free again, wherever a send is interrupted."""
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


def test_close_at_any_line(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
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


def test_no_python_while_locking_a_future() -> None:
    """Condition's `__enter__` is Python: interrupted in it, it would leave the lock taken."""
    files = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        files.add(frame.f_code.co_filename.rpartition("/")[2])

    outcome: Outcome[int] = Outcome()
    before = sys.gettrace()
    sys.settrace(note)
    try:
        outcome.add_done_callback(lambda _: None)
        outcome.done()
        outcome.set_result(5)
        outcome.result()
        outcome.exception()
    finally:
        sys.settrace(before)
    assert files & {"threading.py", "_base.py"} == {"_base.py"}
