"""Asks other servers what was recorded, and compares their answers with the recorded ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from embedded_tubemq import EmbeddedTubeMQ
from tests.conformance.cluster import Cluster, EmbeddedCluster, to_config
from tests.recorder.comparing import Names, differences, translated
from tests.recorder.exchanges import MASTER, Exchange, Recording, broker_name
from tests.recorder.scenario import READ_FROM_MEMORY
from tubeclient.wire.envelope import decode_request

__all__ = ["KEPT", "embedded", "in_real_time", "replay"]

KEPT: Final = Path(__file__).parent / "apache-2.4.0.jsonl"
"""The recording that the tests replay."""

WaitUntil = Callable[[Exchange], int]
"""Waits until it is an exchange's turn. Returns how many ms later than in the recording it is for the servers."""


def replay(recording: Recording, tube: Cluster, wait_until: WaitUntil) -> list[str]:
    """Ask everything in order, at the recorded times. Returns what differs, with the exchange's number and step.

    The topics are there, and empty.
    """
    names = Names()
    found = []
    with ExitStack() as closing_all:
        servers = {MASTER: closing_all.enter_context(closing(tube.raw()))}
        for broker_id in tube.brokers:
            servers[broker_name(broker_id)] = closing_all.enter_context(closing(tube.raw(broker_id)))
        for number, exchange in enumerate(recording.exchanges):
            request = translated(exchange.request, names, wait_until(exchange))
            server, spec = servers[exchange.server], exchange.method.spec
            # The service as it was asked: some calls are taken at two.
            serial = server.send_body(
                decode_request(exchange.request_stream).service, spec.method_id, request.SerializeToString()
            )
            answer = server.answer(exchange.method, serial)
            found += [
                f"{number} ({exchange.step}, {exchange.method.name} to {exchange.server}): {text}"
                for text in differences(exchange.answer, answer, names)
            ]
    return found


@contextmanager
def embedded(recording: Recording, folder: Path) -> Iterator[tuple[EmbeddedCluster, WaitUntil]]:
    """Embedded servers with the recording's topics, whose clock shows the recorded times: nothing is waited for."""
    now_ms = recording.started_ms
    with EmbeddedTubeMQ(
        folder, to_config(recording.topics), brokers=2, check_visit_token=True, clock=lambda: now_ms
    ) as servers:

        def wait_until(exchange: Exchange) -> int:
            nonlocal now_ms
            now_ms = recording.started_ms + exchange.at_ms
            for broker_id in servers.broker_ids:
                # What Apache's brokers do as soon as they read from files.
                servers.broker_faults(broker_id).half_packs = exchange.step not in READ_FROM_MEMORY
                servers.inspect(lambda broker: broker.tick(now_ms), broker_id=broker_id)
            return 0

        yield EmbeddedCluster(servers), wait_until


def in_real_time(recording: Recording) -> WaitUntil:
    """For servers with a clock of their own: what was silence is silence again."""
    started = time.time_ns() // 1_000_000

    def wait_until(exchange: Exchange) -> int:
        time.sleep(max(0, started + exchange.at_ms - time.time_ns() // 1_000_000) / 1000)
        return time.time_ns() // 1_000_000 - exchange.at_ms - recording.started_ms

    return wait_until
