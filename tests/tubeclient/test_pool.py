"""The connections of a process: one for each address, one attempt for all who wait for it."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.waiting import wait_for
from tubeclient import ClientClosed, ClientSettings, ConnectError
from tubeclient.net import pool as pool_module
from tubeclient.net.pool import ConnectionPool

NOWHERE = "127.0.0.1:1"


def test_who_waits_for_an_attempt_shares_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []
    asked = itertools.count()
    all_asked = threading.Event()

    def clock() -> float:
        if next(asked) == 7:
            all_asked.set()
        return time.monotonic()

    def connect(address: str, **_: int) -> None:
        attempts.append(address)
        assert all_asked.wait(30)
        raise ConnectError("no answer", address=address)

    monkeypatch.setattr(pool_module, "monotonic", clock)
    monkeypatch.setattr(pool_module, "Connection", connect)
    pool = ConnectionPool(ClientSettings((NOWHERE,)))
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(pool.get, NOWHERE) for _ in range(8)]
        for caller in waiting:
            with pytest.raises(ConnectError, match="no answer"):
                caller.result(30)
    assert attempts == [NOWHERE]
    with pytest.raises(ConnectError):
        pool.get(NOWHERE)
    assert attempts == [NOWHERE, NOWHERE]  # whoever comes later tries again


def test_a_connection_that_ended_is_made_anew(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    pool = ConnectionPool(settings)
    first = pool.get(cluster.broker_addresses[1])
    assert pool.get(cluster.broker_addresses[1]) is first
    cluster.stop_broker(1)
    wait_for(lambda: first.closed, "the end of the connection")
    with pytest.raises(ConnectError):
        pool.get(cluster.broker_addresses[1])
    cluster.start_broker(1)
    second = pool.get(cluster.broker_addresses[1])
    assert second is not first
    pool.close()
    assert second.closed
    with pytest.raises(ClientClosed, match="opens no new connection"):
        pool.get(cluster.broker_addresses[1])
