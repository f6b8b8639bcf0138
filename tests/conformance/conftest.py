"""Each test of this folder runs on the embedded cluster and on Apache's, but for some that need Apache's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.apache.fixtures import apache, java_consumer, java_producer, java_vm
from tests.conformance.cluster import Cluster, to_config
from tests.conformance.topics import TOPICS
from tubeclient import ClientBalanceConsumer, ClientSettings, Producer

__all__ = ["ON_APACHE", "apache", "java_consumer", "java_producer", "java_vm"]

ON_APACHE = pytest.mark.parametrize("tube", [pytest.param("apache", marks=pytest.mark.apache)], indirect=True)
"""For what the embedded servers do not have."""


@pytest.fixture(scope="session", params=["embedded", pytest.param("apache", marks=pytest.mark.apache)])
def tube(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master, two brokers and TOPICS. All tests share the two; they keep apart by their topics and groups."""
    if request.param == "apache":
        yield Cluster(request.getfixturevalue("apache"))
        return
    # Its brokers want the master's visit token, as on a cluster that checks them: every client has to show it.
    folder = tmp_path_factory.mktemp("embedded")
    with EmbeddedTubeMQ(folder, to_config(TOPICS), brokers=2, check_visit_token=True) as servers:
        yield Cluster(servers)


@pytest.fixture
def master_address(tube: Cluster) -> str:
    return tube.master_address


@pytest.fixture
def settings(tube: Cluster) -> ClientSettings:
    return tube.settings


@pytest.fixture
def producer(settings: ClientSettings) -> Iterator[Producer]:
    with Producer(settings) as running:
        yield running


class MakeConsumer(Protocol):
    """`consumer_of(group, topics, ...)`: a consumer of ours, started; closed after the test."""

    def __call__(self, group: str, topics: Any, **options: Any) -> ClientBalanceConsumer: ...


@pytest.fixture
def consumer_of(settings: ClientSettings) -> Iterator[MakeConsumer]:
    with contextlib.ExitStack() as closing:

        def make(group: str, topics: Any, **options: Any) -> ClientBalanceConsumer:
            options.setdefault("start_from", "earliest")
            return closing.enter_context(ClientBalanceConsumer(settings, group, topics, **options))

        yield make
