"""First and last offsets, by both ways, which must agree."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler

import pytest

from embedded_tubemq import TopicConfig
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.ports import silent_server
from tests.tubeclient.fake_web import serving
from tests.waiting import wait_for
from tubeclient import (
    ClientSettings,
    ClusterView,
    ConfigurationError,
    NoMessageTime,
    OffsetLookup,
    PartitionKey,
    StoreBounds,
    StoreKey,
    TubeError,
    fetch_view,
    reader_groups_of,
)
from tubeclient.wire.payload import encode_attributes, encode_payload

GROUPS = reader_groups_of("etl")


@pytest.fixture
def view(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> ClusterView:
    cluster.load("clicks", [NewMessage(partition_id, b"x") for partition_id in (0, 1, 1, 10_000)])
    cluster.load("clicks", [NewMessage(10_001, b"x")] * 5, broker_id=2)
    cluster.expire("clicks", 56)
    return fetch_view(settings, ["clicks"], GROUPS)


EXPECTED = {
    StoreKey(1, "clicks", 0): StoreBounds(56, 84),
    StoreKey(1, "clicks", 1): StoreBounds(0, 28),
    StoreKey(2, "clicks", 0): StoreBounds(0, 0),
    StoreKey(2, "clicks", 1): StoreBounds(0, 140),
}


def test_over_http_and_over_the_protocol_the_same(settings: ClientSettings, view: ClusterView) -> None:
    with closing(OffsetLookup(settings, GROUPS)) as by_http:
        assert by_http.bounds(view) == EXPECTED
    without_web = replace(settings, master_web_port=1)
    with closing(OffsetLookup(without_web, GROUPS)) as by_protocol:
        assert by_protocol.bounds(view) == EXPECTED


@pytest.mark.parametrize("web", [True, False])
def test_index_before_messages(cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, web: bool) -> None:
    """A store starts at its first message even if its index starts earlier."""
    shared, alone = StoreKey(1, "clicks", 1), StoreKey(1, "single", 0)
    cluster.load("clicks", [NewMessage(10_000 + n % 3 // 2, b"%d" % n) for n in range(999)])
    cluster.load("single", [NewMessage(0, b"%d" % n) for n in range(1_000)])
    both = fetch_view(settings, ["clicks", "single"], GROUPS)
    with closing(OffsetLookup(settings if web else replace(settings, master_web_port=1), GROUPS)) as lookup:
        cluster.expire_data("clicks", 501 * 28, store_id=1)
        cluster.expire("single", 100 * 28)
        cluster.expire_data("single", 400 * 28)
        found = lookup.bounds(both)
        assert (found[shared], found[alone]) == (StoreBounds(501 * 28, 28_000), StoreBounds(400 * 28, 28_000))
        assert found[StoreKey(2, "clicks", 1)] == StoreBounds(0, 140)


@pytest.mark.parametrize("web", [True, False])
def test_recreated_topic(cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, web: bool) -> None:
    """A recreated topic has none of the former topic's bounds."""
    store = StoreKey(1, "single", 0)
    cluster.load("single", [NewMessage(0, b"%d" % n) for n in range(1_000)])
    alone = fetch_view(settings, ["single"], GROUPS)
    with closing(OffsetLookup(settings if web else replace(settings, master_web_port=1), GROUPS)) as lookup:
        cluster.expire_data("single", 600 * 28)
        assert lookup.bounds(alone)[store] == StoreBounds(600 * 28, 28_000)
        cluster.delete_topic("single")
        cluster.create_topic(TopicConfig("single"))
        cluster.load("single", [NewMessage(0, b"%d" % n) for n in range(800)])
        assert lookup.bounds(alone)[store] == StoreBounds(0, 800 * 28)
        if web:  # without, it is looked into again later
            cluster.expire_data("single", 100 * 28)
            assert lookup.bounds(alone)[store] == StoreBounds(100 * 28, 800 * 28)


WAYS = pytest.mark.parametrize("web_port", [None, 1], ids=["over HTTP", "over the protocol"])


def by(settings: ClientSettings, web_port: int | None, rpc_timeout_ms: int = 2_000) -> ClientSettings:
    known = settings.master_web_port if web_port is None else web_port
    return replace(settings, master_web_port=known, rpc_timeout_ms=rpc_timeout_ms)


OF_ONE = {store: bounds for store, bounds in EXPECTED.items() if store.broker_id == 1}


@WAYS
def test_a_broker_that_is_down_hides_no_other(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, web_port: int | None
) -> None:
    """From the first look on; and it is heard when it is back."""
    cluster.stop_broker(2)
    with closing(OffsetLookup(by(settings, web_port), GROUPS)) as lookup:
        for _ in range(3):
            look = lookup.snapshot(view)
            assert look.bounds == OF_ONE
            assert list(look.silent) == [2]
            assert f"127.0.0.1:{view.brokers[2].port}" in str(look.silent[2])
        cluster.start_broker(2)
        wait_for(lambda: not lookup.snapshot(view).silent, "the broker to be heard")
        assert lookup.snapshot(view).bounds == EXPECTED
        cluster.stop_broker(2)
        assert lookup.snapshot(view).bounds == OF_ONE
        cluster.start_broker(2)
        assert lookup.bounds(view) == EXPECTED
        whole = lookup.snapshot(view)
        assert (whole.bounds, whole.silent) == (EXPECTED, {})


def test_nobody_waits_for_a_broker_that_says_nothing(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView
) -> None:
    """It takes connections and then is still: each call to it lasts until its deadline."""
    patient = by(settings, 1, rpc_timeout_ms=60_000)
    cluster.stop_broker(2)
    with ThreadPoolExecutor(1) as caller, closing(OffsetLookup(patient, GROUPS)) as lookup:
        assert lookup.snapshot(view).bounds == OF_ONE
        with silent_server(view.brokers[2].port) as (_, taken):

            def is_asked() -> bool:
                """A look asks it again once the last query of it has ended."""
                assert caller.submit(lookup.snapshot, view).result(timeout=30).bounds == OF_ONE
                return bool(taken)

            wait_for(is_asked, "the broker to be asked")
            for _ in range(5):
                assert is_asked()
            assert len(taken) == 1


def test_web_port_before_stores(cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView) -> None:
    """A broker that lists no stores yet after its start has not lost them."""

    def no_stores(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(json.dumps({"result": True, "errCode": 0, "errMsg": "OK", "dataSet": []}).encode())

    impatient = replace(settings, retry_limit_ms=500)
    with closing(OffsetLookup(settings, GROUPS)) as lookup, closing(OffsetLookup(impatient, GROUPS)) as newcomer:
        lookup.bounds(view)
        port = cluster.broker_web_ports[2]
        cluster.stop_broker(2)
        with serving("127.0.0.1", port, no_stores) as asked:
            assert lookup.snapshot(view).bounds == OF_ONE
            with pytest.raises(TubeError, match=r"127\.0\.0\.1"):
                newcomer.bounds(view)
            assert any("admin_query_pubinfo" in request for request in asked)
        cluster.start_broker(2)
        assert lookup.bounds(view) == newcomer.bounds(view) == EXPECTED


def test_offsets_of_times(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    def at(minute: int, partition_id: int) -> NewMessage:
        text = encode_attributes({}, time=f"2026010112{minute:02d}")
        return NewMessage(partition_id, *encode_payload(b"x", text))

    cluster.load("clicks", [at(n // 10, n % 2) for n in range(100)])
    cluster.load("clicks", [at(n, 10_001) for n in range(10)], broker_id=2)
    view = fetch_view(settings, ["clicks"], GROUPS)
    first, second, far, empty = (
        PartitionKey(1, "clicks", 0),
        PartitionKey(1, "clicks", 1),
        PartitionKey(2, "clicks", 10_001),
        PartitionKey(2, "clicks", 0),
    )
    noon_ms = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
    minute_ms = 60_000
    wanted = {
        first: noon_ms + 3 * minute_ms,
        second: noon_ms + 4 * minute_ms - 1,
        far: noon_ms + 7 * minute_ms,
        empty: noon_ms,
    }
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        # Just behind the last older message of its own: entry 28 is the first's, 29 the second's.
        assert lookup.offsets_at(view, wanted) == {first: 29 * 28, second: 30 * 28, far: 7 * 28, empty: None}
        in_berlin = {key: time - 60 * minute_ms for key, time in wanted.items()}
        assert lookup.offsets_at(view, in_berlin, time_zone="Europe/Berlin")[far] == 7 * 28
        within = {far.store: StoreBounds(0, 5 * 28)}
        assert lookup.offsets_at(view, {far: wanted[far]}, bounds=within) == {far: None}
        moments = {key: datetime.fromtimestamp(time / 1000, UTC) for key, time in wanted.items()}
        assert lookup.offsets_at(view, moments) == lookup.offsets_at(view, wanted)
        with pytest.raises(ConfigurationError, match="'Mars' is not a time zone; give a name"):
            lookup.offsets_at(view, wanted, time_zone="Mars")
        with pytest.raises(ConfigurationError, match="cannot look up partition 3:clicks:0"):
            lookup.offsets_at(view, {PartitionKey(3, "clicks", 0): 0})
        cluster.load("clicks", [NewMessage(0, b"without")], broker_id=2)
        with pytest.raises(NoMessageTime, match=r"partition 2:clicks:0 \(topic clicks\) carries no time"):
            lookup.offsets_at(view, wanted)
    assert {cursor.group for cursor in cluster.inspect(lambda broker: list(broker.offsets.cursors()))} <= set(GROUPS)
