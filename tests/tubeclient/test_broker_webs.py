"""Setting a group's positions at all its brokers, and what stands in the way."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest

from embedded_tubemq import TopicConfig
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.moving import move_broker, move_web_port, swap_brokers
from tests.tubeclient.fake_web import serving
from tubeclient import (
    BrokerFailed,
    ClientBalanceConsumer,
    ClientSettings,
    ClusterView,
    ConnectError,
    PartitionKey,
    broker_webs,
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
    text = rf"broker {view.brokers[1]} takes it over HTTP only.*no answer to \w+ from http://.*:1: .* and masterWebPort"
    with pytest.raises(ConnectError, match=text):
        webs.require(view, "takes it")
    with pytest.raises(BrokerFailed, match="its web port is unknown"):
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


def test_a_broker_that_moved_is_told_where_it_is_now(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, webs: BrokerWebs
) -> None:
    webs.set_group_positions(view, "etl", {ON_1: ROW, ON_2: ROW}, "tester")
    move_broker(cluster, 2)
    shown = fetch_view(settings, ["clicks"], reader_groups_of("etl"))
    assert shown.brokers[1] == view.brokers[1]
    assert shown.brokers[2] != view.brokers[2]
    webs.set_group_positions(shown, "etl", {ON_1: 2 * ROW, ON_2: 2 * ROW}, "tester")
    assert webs.group_positions(shown, "etl") == {ON_1: 2 * ROW, ON_2: 2 * ROW}


def test_brokers_that_swapped_their_addresses_are_not_taken_for_each_other(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, webs: BrokerWebs
) -> None:
    webs.set_group_positions(view, "etl", {ON_1: ROW, ON_2: 5 * ROW}, "tester")
    swap_brokers(cluster)
    shown = fetch_view(settings, ["clicks"], reader_groups_of("etl"))
    assert webs.group_positions(shown, "etl") == {ON_1: ROW, ON_2: 5 * ROW}
    webs.set_group_positions(shown, "etl", {ON_1: 2 * ROW}, "tester")
    assert BrokerWebs(settings).group_positions(shown, "etl") == {ON_1: 2 * ROW, ON_2: 5 * ROW}


def test_a_web_port_that_is_another_one_since_is_found_when_the_old_one_fails(
    cluster: EmbeddedTubeMQ, view: ClusterView, webs: BrokerWebs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_webs, "_ASK_AFTER_FAILURE_SECONDS", 0.0)
    webs.learn(view)
    move_web_port(cluster, 2)
    webs.set_group_positions(view, "etl", {ON_2: ROW}, "tester")
    move_web_port(cluster, 2)
    assert webs.group_positions(view, "etl") == {ON_2: ROW}


def test_while_a_broker_is_down_the_masters_are_not_asked_at_each_failure(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, webs: BrokerWebs
) -> None:
    asked: list[None] = []
    brokers = webs._masters.brokers
    webs._masters.brokers = lambda: asked.append(None) or brokers()  # type: ignore[func-returns-value,method-assign]
    webs.learn(view)
    cluster.stop_broker(2)
    for _ in range(3):
        with pytest.raises(BrokerFailed):
            webs.set_group_positions(view, "etl", {ON_2: ROW}, "tester")
    assert len(asked) == 1


def test_with_a_layout_from_before_a_move_nothing_is_asked_at_the_old_address(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, webs: BrokerWebs
) -> None:
    """Another broker may be there."""
    swap_brokers(cluster)
    text = rf"broker {view.brokers[1]} has moved, the master lists it as 1:127\.0\.0\.1:{view.brokers[2].port}"
    with pytest.raises(ConnectError, match=text):
        webs.group_positions(view, "etl")
    with pytest.raises(BrokerFailed, match=text):
        webs.set_group_positions(view, "etl", {ON_1: ROW}, "tester")
