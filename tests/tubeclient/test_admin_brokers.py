"""A broker that does not answer, or stops in the middle of a change, is named, and so is what was done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler

import pytest

from embedded_tubemq import DEFAULT_TOKEN
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.fake_web import serving
from tubeclient import Admin, BrokerFailed, ClientSettings, PartitionKey, TransportError

ROW = 28
FIRST, SECOND, THIRD = (PartitionKey(broker_id, "single", 0) for broker_id in (1, 2, 3))


@pytest.fixture
def admin(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> Admin:
    for broker_id in (1, 2):
        cluster.load("single", [NewMessage(0, b"x")] * 4, broker_id=broker_id)
    return Admin(settings, modify_token=DEFAULT_TOKEN)


def positions(cluster: EmbeddedTubeMQ, group: str) -> dict[int, int | None]:
    """What broker 1 itself holds: position by partition id."""
    return cluster.inspect(
        lambda broker: {
            cursor.partition_id: broker.offsets.committed(cursor)
            for cursor in broker.offsets.cursors()
            if cursor.group == group
        }
    )


def answer_with(positions: Sequence[object], request: BaseHTTPRequestHandler) -> None:
    """As a broker whose web port is there before its stores are."""
    data = positions if "admin_query_offset" in request.path else []
    request.send_response(200)
    request.end_headers()
    request.wfile.write(json.dumps({"result": True, "errCode": 0, "errMsg": "OK", "dataSet": data}).encode())


def test_a_broker_that_is_down_is_named(cluster: EmbeddedTubeMQ, admin: Admin) -> None:
    cluster.stop_broker(2)
    assert [broker.run_status for broker in admin.brokers()] == ["running", "unRegister"]
    assert [on.is_loaded for on in admin.topics(["single"])[0].on_brokers] == [True, False]
    where = rf"broker 2:{cluster.broker_addresses[2]} failed: no answer to admin_query_\w+ from http://127.0.0.1:"
    with pytest.raises(BrokerFailed, match=where) as caught:
        admin.group_offsets("etl")
    assert isinstance(caught.value.__cause__, TransportError)
    with pytest.raises(BrokerFailed, match=where):
        admin.store_bounds()
    with pytest.raises(BrokerFailed, match=rf"broker 2:{cluster.broker_addresses[2]} failed") as caught:
        admin.set_offsets("etl", {FIRST: ROW, SECOND: ROW})
    assert caught.value.broker == f"2:{cluster.broker_addresses[2]}"
    assert positions(cluster, "etl") == {0: ROW}


def test_the_bounds_of_a_broker_that_is_starting_are_not_told(cluster: EmbeddedTubeMQ, admin: Admin) -> None:
    """It leaves out stores that it has not loaded, as those that were never written to."""
    port = cluster.broker_web_ports[1]
    cluster.stop_broker(1)
    with serving("127.0.0.1", port, partial(answer_with, [])) as asked:
        with pytest.raises(BrokerFailed, match=f"broker 1:{cluster.broker_addresses[1]} failed"):
            admin.store_bounds(["single"])
        assert asked
    cluster.start_broker(1)
    bounds = admin.store_bounds(["single"])
    assert bounds[FIRST.store] == bounds[SECOND.store] == (0, 4 * ROW)
