"""Setting a group's positions at all its brokers, and what stands in the way."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest

from embedded_tubemq import TopicConfig
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.store import NewMessage
from tests.tubeclient.fake_web import serving
from tubeclient import (
    BrokerFailed,
    ClientBalanceConsumer,
    ClientSettings,
    ClusterView,
    ConnectError,
    PartitionKey,
    fetch_view,
    reader_groups_of,
)
from tubeclient.admin.broker import BrokerWeb
from tubeclient.broker_webs import BrokerWebs

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


def test_what_was_set_is_told_and_the_groups_consumer_goes_on_from_it(
    settings: ClientSettings, view: ClusterView, webs: BrokerWebs
) -> None:
    wanted = {ON_1: 3 * ROW, ALSO_ON_1: 0, ON_2: 9 * ROW}
    webs.set_group_positions(view, "etl", wanted, "tester")
    assert webs.group_positions(view, "etl") == wanted
    with ClientBalanceConsumer(settings, "etl", ["clicks"], source_count=1, node_id=0).start() as consumer:
        assert {key: consumer.connect(key) for key in wanted} == wanted
        delivery = consumer.get(timeout_ms=20_000)
        assert delivery is not None
        first = wanted[delivery.partition] // ROW
        assert delivery.bodies == [b"%d" % n for n in range(first, 10)]
    assert webs.group_positions(view, "another") == {}


def test_a_position_that_has_expired_becomes_the_first_that_is_there(
    cluster: EmbeddedTubeMQ, view: ClusterView, webs: BrokerWebs
) -> None:
    cluster.expire("clicks", 4 * ROW)
    webs.set_group_positions(view, "etl", {ON_1: 2 * ROW}, "tester")
    assert webs.group_positions(view, "etl") == {ON_1: 4 * ROW}


def test_a_position_behind_the_end_is_not_set_and_the_others_are(view: ClusterView, webs: BrokerWebs) -> None:
    wanted = {ON_1: 11 * ROW, ALSO_ON_1: 4 * ROW, ON_2: 5 * ROW}
    with pytest.raises(BrokerFailed, match=r"broker 1:.*1:clicks:0 ends at 280, before the position 308") as caught:
        webs.set_group_positions(view, "etl", wanted, "tester")
    assert caught.value.broker == str(view.brokers[1])
    assert webs.group_positions(view, "etl") == {ALSO_ON_1: 4 * ROW, ON_2: 5 * ROW}


def test_a_broker_that_is_down_is_named_and_the_others_are_told(
    cluster: EmbeddedTubeMQ, view: ClusterView, webs: BrokerWebs
) -> None:
    webs.learn(view)
    cluster.stop_broker(1)
    with pytest.raises(BrokerFailed, match=rf"broker {view.brokers[1]} failed: no answer to admin_\w+ from http://"):
        webs.set_group_positions(view, "etl", {ON_1: ROW, ON_2: ROW}, "tester")
    cluster.start_broker(1)
    assert webs.group_positions(view, "etl") == {ON_2: ROW}


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


def test_where_no_web_port_is_known_the_option_is_named(settings: ClientSettings, view: ClusterView) -> None:
    webs = BrokerWebs(replace(settings, master_web_port=1))
    text = (
        rf"broker {view.brokers[1]} takes it over HTTP only.*no answer to \w+ from http://.*:1: .*; check masterWebPort"
    )
    with pytest.raises(ConnectError, match=text):
        webs.require(view, "takes it")
    with pytest.raises(BrokerFailed, match="its web port is not known"):
        webs.set_group_positions(view, "etl", {ON_1: ROW}, "tester")
    BrokerWebs(settings).require(view, "takes it")


def test_more_positions_than_a_form_takes_go_in_several(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "t" * 64
    cluster.create_topic(TopicConfig(name, partitions=2_500))
    cluster.load(name, [NewMessage(0, b"x")] * 3)
    view = fetch_view(settings, [name], reader_groups_of("etl"))
    sizes = []
    original = BrokerWeb._ask

    def measured(web: BrokerWeb, method: str, *arguments: object, **parameters: str) -> object:
        if method == "admin_set_offset":
            sizes.append(len(urllib.parse.urlencode(parameters)))
        return original(web, method, *arguments, **parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(BrokerWeb, "_ask", measured)
    wanted = {PartitionKey(1, name, n): n % 3 * ROW for n in range(2_500)}
    webs = BrokerWebs(settings)
    webs.set_group_positions(view, "etl", wanted, "tester")
    assert webs.group_positions(view, "etl") == wanted
    assert len(sizes) == 3
    assert max(sizes) < 200_000
