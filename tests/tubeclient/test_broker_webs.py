"""Setting a group's positions at all its brokers, and what stands in the way."""

from __future__ import annotations

import json
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.moving import swap_brokers
from tests.tubeclient.fake_web import serving
from tubeclient import (
    Admin,
    BrokerFailed,
    ClientBalanceConsumer,
    ClientSettings,
    ClusterView,
    ConnectError,
    PartitionKey,
    TransportError,
    fetch_view,
    reader_groups_of,
)
from tubeclient.admin.broker_webs import BrokerWebs

ROW = 28
ON_1, ALSO_ON_1, ON_2 = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_001), PartitionKey(2, "clicks", 1)


@pytest.fixture
def view(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> ClusterView:
    """Ten messages in each of the three partitions; nothing in the other stores."""
    for key in (ON_1, ALSO_ON_1, ON_2):
        cluster.load("clicks", [NewMessage(key.partition_id, b"%d" % n) for n in range(10)], broker_id=key.broker_id)
    return fetch_view(settings, ["clicks"], reader_groups_of("etl"))


@pytest.fixture
def webs(settings: ClientSettings) -> BrokerWebs:
    return BrokerWebs(settings)


def test_set_positions(settings: ClientSettings, view: ClusterView, webs: BrokerWebs) -> None:
    """The brokers report the positions that were set, and the group's consumer starts there."""
    wanted = {ON_1: 3 * ROW, ALSO_ON_1: 0, ON_2: 9 * ROW}
    webs.set_group_positions(view, "etl", wanted, "tester")
    assert webs.answered_positions(view, "etl")[0] == wanted
    with ClientBalanceConsumer(settings, "etl", ["clicks"], source_count=1, node_id=0).start() as consumer:
        assert {key: consumer.connect(key) for key in wanted} == wanted
        delivery = consumer.get(timeout_ms=20_000)
        assert delivery is not None
        first = wanted[delivery.partition] // ROW
        assert delivery.bodies == [b"%d" % n for n in range(first, 10)]
    assert webs.answered_positions(view, "another") == ({}, {})


def test_position_past_end(view: ClusterView, webs: BrokerWebs) -> None:
    """A position past the partition's end is refused, and all other positions are set."""
    wanted = {ON_1: 11 * ROW, ALSO_ON_1: 4 * ROW, ON_2: 5 * ROW}
    with pytest.raises(BrokerFailed, match=r"broker 1:.*1:clicks:0 ends at 280, before the position 308") as caught:
        webs.set_group_positions(view, "etl", wanted, "tester")
    assert caught.value.broker == str(view.brokers[1])
    assert webs.answered_positions(view, "etl")[0] == {ALSO_ON_1: 4 * ROW, ON_2: 5 * ROW}


def test_a_broker_that_is_starting_is_left_alone(cluster: EmbeddedTubeMQ, view: ClusterView, webs: BrokerWebs) -> None:
    """It would lower positions to the ends of stores that it has not loaded."""
    webs.learn(view)

    def no_stores(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(json.dumps({"result": True, "errCode": 0, "errMsg": "OK", "dataSet": []}).encode())

    port = cluster.broker_web_ports[1]
    cluster.stop_broker(1)
    with serving("127.0.0.1", port, no_stores) as asked:
        with pytest.raises(BrokerFailed, match=f"broker {view.brokers[1]} failed"):
            webs.set_group_positions(view, "etl", {ON_1: ROW, ALSO_ON_1: 0}, "tester")
        assert asked
        assert not any("admin_set_offset" in request for request in asked)


def test_unknown_web_port(settings: ClientSettings, view: ClusterView) -> None:
    """The error names master_web_port if no web port is known."""
    webs = BrokerWebs(replace(settings, master_web_port=1))
    text = rf"broker {view.brokers[1]} takes it over HTTP only.*http://.*:1 did not answer: .* and master_web_port"
    with pytest.raises(ConnectError, match=text):
        webs.require(view, "takes it")
    with pytest.raises(BrokerFailed, match="its web port is unknown"):
        webs.set_group_positions(view, "etl", {ON_1: ROW}, "tester")
    BrokerWebs(settings).require(view, "takes it")


def test_layout_from_before_a_move(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, webs: BrokerWebs
) -> None:
    """Another broker may be there."""
    swap_brokers(cluster)
    text = rf"broker {view.brokers[1]} has moved, the master lists it as 1:127\.0\.0\.1:{view.brokers[2].port}"
    _, silent = webs.answered_positions(view, "etl")
    assert sorted(silent) == [1, 2]
    with pytest.raises(BrokerFailed, match=text):
        webs.set_group_positions(view, "etl", {ON_1: ROW}, "tester")


def test_stopped_broker(cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView) -> None:
    """The error names the stopped broker, and the positions at other brokers are set."""
    admin = Admin(settings)
    cluster.stop_broker(2)
    assert [broker.run_status for broker in admin.brokers()] == ["running", "unRegister"]
    assert [on.is_loaded for on in admin.topics(["clicks"])[0].on_brokers] == [True, False]
    where = rf"broker 2:{cluster.broker_addresses[2]} failed: http://127.0.0.1:\d+ did not answer: "
    with pytest.raises(BrokerFailed, match=where) as caught:
        admin.group_offsets("etl")
    assert isinstance(caught.value.__cause__, TransportError)
    with pytest.raises(BrokerFailed, match=where):
        admin.store_bounds()
    with pytest.raises(BrokerFailed, match=where) as caught:
        admin.set_offsets("etl", {ON_1: ROW, ON_2: ROW})
    assert caught.value.broker == f"2:{cluster.broker_addresses[2]}"
    cluster.start_broker(2)
    assert admin.group_offsets("etl").committed == {ON_1: ROW}
