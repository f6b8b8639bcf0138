"""What both servers answer on a port that is not a master's, and the brokers that masters name by protocol and web."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.cluster import Cluster
from tubeclient import ConnectError
from tubeclient.admin import Admin
from tubeclient.web_port import named_brokers, web_port_fault

pytestmark = pytest.mark.apache


def test_a_brokers_port_and_a_web_port_are_told_as_what_they_are(tube: Cluster) -> None:
    web = f"{tube.master_address.rpartition(':')[0]}:{tube.master_web_port}"
    wrong = replace(tube.settings, master_servers=(tube.brokers[1].address, web))
    with pytest.raises(ConnectError, match="masters usually listen on 8715") as told:
        named_brokers(wrong)
    assert "not a master's port but a broker's" in str(told.value)
    assert "does not speak TubeMQ's protocol but HTTP" in str(told.value)


def test_masters_name_the_brokers_that_their_web_port_lists(tube: Cluster) -> None:
    named = named_brokers(tube.settings)
    assert sorted(named) == sorted(tube.brokers.values())
    assert web_port_fault(tube.master_web_port, Admin(tube.settings).brokers(), named) is None
    elsewhere = [broker._replace(port=broker.port + 1) for broker in named]
    assert web_port_fault(tube.master_web_port, Admin(tube.settings).brokers(), elsewhere) is not None
