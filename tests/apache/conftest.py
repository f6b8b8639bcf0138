"""Fixtures for this folder: Apache's servers, and our client on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apache.fixtures import *  # noqa: F403
from tests.apache.server import ApacheTubeMQ
from tubeclient import ClientSettings, Producer


@pytest.fixture
def master_address(apache: ApacheTubeMQ) -> str:
    return apache.master_address


@pytest.fixture
def settings(apache: ApacheTubeMQ) -> ClientSettings:
    return ClientSettings((apache.master_address,), master_web_port=apache.master_web_port)


@pytest.fixture
def producer(settings: ClientSettings) -> Iterator[Producer]:
    with Producer(settings) as running:
        yield running
