"""Faults that no waiting mends are told after seconds, whatever the retry limit, and say who met whom."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tubeclient import (
    BrokerInfo,
    ClientSettings,
    ConnectError,
    OffsetRange,
    PartitionKey,
    RangeReader,
)
from tubeclient.errors import ConnectionLost
from tubeclient.flows import patience
from tubeclient.flows.patience import LASTING_GRACE_MS, FaultHistory
from tubeclient.identity import host_name
from tubeclient.net.pool import ConnectionPool

KEY = PartitionKey(1, "single", 0)
LONG_MS = 3_600_000
UNKNOWN = "broker.invalid"


@pytest.fixture
def unknown_names(settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is not known, as a name server would say of one that ends in .invalid; and no grace for that."""
    known = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        if host == UNKNOWN:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(patience, "LASTING_GRACE_MS", 0)


@pytest.mark.usefixtures("unknown_names")
def test_a_reader_does_not_wait_for_a_name_that_nobody_knows(settings: ClientSettings) -> None:
    with (
        RangeReader(replace(settings, retry_limit_ms=LONG_MS), ("readers",)) as reader,
        pytest.raises(ConnectError, match=f"{KEY}.*{host_name()} cannot connect to {UNKNOWN}:8123: Name or service"),
    ):
        list(reader.read(BrokerInfo(1, UNKNOWN, 8123), OffsetRange(KEY, 0, 28)))


def test_which_faults_of_a_connection_last(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ConnectionPool(settings)
    for number, lasts in ((socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)):

        def refuse(*_: Any, number: int = number, **__: Any) -> None:
            raise socket.gaierror(number, "in the words of the system")

        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", refuse)
            with pytest.raises(ConnectError) as caught:
                pool.get(f"{UNKNOWN}:8123")
        assert caught.value.lasting is lasts
    for host in ("a..b", "a" * 64):  # as a master may name a broker
        with pytest.raises(ConnectError, match="label") as caught:
            pool.get(f"{host}:8123")
        assert caught.value.lasting
    with pytest.raises(ConnectError) as caught:
        pool.get("127.0.0.1:1")  # refused: it may be about to start
    assert not caught.value.lasting
    pool.close()


def test_a_fault_is_beyond_doubt_when_nothing_else_came_for_the_grace() -> None:
    lasting, passing = ConnectError("x", lasting=True), ConnectionLost("y")
    faults = FaultHistory()
    assert not faults.lasts(lasting, 0)
    assert not faults.lasts(lasting, LASTING_GRACE_MS - 1)
    assert not faults.lasts(passing, LASTING_GRACE_MS)
    assert not faults.lasts(lasting, LASTING_GRACE_MS + 1)
    assert not faults.lasts(lasting, 2 * LASTING_GRACE_MS)
    assert faults.lasts(lasting, 2 * LASTING_GRACE_MS + 1)
