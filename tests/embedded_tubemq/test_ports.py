"""Ports that there are not, and those of a stopped broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, ServerTls
from tubeclient.errors import ConfigurationError


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ({"master_port": 70_000}, "port 70000 is not from 0 to 65535"),
        ({"master_web_port": -1}, "port -1 is not from 0 to 65535"),
        ({"broker_port": 65_534}, "port 65536 is not from 0 to 65535"),
        ({"tls": ServerTls("pem", master_port=65_536)}, "port 65536 is not from 0 to 65535"),
        ({"tls": ServerTls("pem", broker_port=65_535)}, "port 65537 is not from 0 to 65535"),
    ],
)
def test_a_port_that_there_is_not_is_refused(tmp_path: Path, ports: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        EmbeddedTubeMQ(tmp_path, brokers=3, **ports)


def test_the_last_ports_can_be_given(tmp_path: Path) -> None:
    EmbeddedTubeMQ(tmp_path, brokers=3, master_port=65_535, broker_port=65_533)


@contextmanager
def given_away(port: int) -> Iterator[None]:
    """Somebody else has the port."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        yield


@pytest.mark.parametrize("clean", [True, False])
def test_nobody_gets_the_ports_of_a_stopped_broker_until_the_end(tmp_path: Path, clean: bool) -> None:
    with EmbeddedTubeMQ(tmp_path, brokers=3) as tube:
        addresses, webs = tube.broker_addresses, tube.broker_web_ports
        ports = {one: (int(addresses[one].rpartition(":")[2]), webs[one]) for one in addresses}
        tube.stop_broker(2, clean=clean)
        for port in ports[2]:
            with pytest.raises(OSError, match="in use"), given_away(port):
                pass
            with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 5):
                pass
        tube.start_broker(2)
        assert (tube.broker_addresses, tube.broker_web_ports) == (addresses, webs)
        for port in ports[2]:
            socket.create_connection(("127.0.0.1", port), 5).close()
        tube.remove_broker(3)
        tube.stop_broker(1, clean=clean)
        with given_away(ports[3][0]), given_away(ports[3][1]):
            pass
    with given_away(ports[1][0]), given_away(ports[1][1]):
        pass
