"""Ports that there are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, ServerTls
from tubeclient.errors import ConfigurationError


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ({"master_port": 70_000}, "the master's port 70000 is not from 0 to 65535"),
        ({"master_web_port": -1}, "the master's web port -1 is not from 0 to 65535"),
        ({"broker_port": 65_534}, "broker 3's port 65536 is not from 0 to 65535"),
        ({"tls": ServerTls("pem", master_port=65_536)}, "the master's TLS port 65536 is not from 0 to 65535"),
        ({"tls": ServerTls("pem", broker_port=65_535)}, "broker 3's TLS port 65537 is not from 0 to 65535"),
    ],
)
def test_a_port_that_there_is_not_is_refused(tmp_path: Path, ports: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        EmbeddedTubeMQ(tmp_path, brokers=3, **ports)


def test_the_last_ports_can_be_given(tmp_path: Path) -> None:
    EmbeddedTubeMQ(tmp_path, brokers=3, master_port=65_535, broker_port=65_533)
