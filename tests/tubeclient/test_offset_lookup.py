"""First and last offsets, by both ways, which must agree."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.store import NewMessage
from tests.tubeclient.occupying import occupy
from tubeclient import (
    ClientSettings,
    ClusterView,
    ConnectError,
    OffsetLookup,
    PartitionKey,
    StoreBounds,
    StoreKey,
    TubeError,
    fetch_view,
    reader_groups_of,
)

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


def test_http_takes_no_partition_and_leaves_no_position(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView
) -> None:
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        lookup.bounds(view)
    assert cluster.inspect(lambda broker: list(broker.offsets.cursors())) == []


def test_a_probe_goes_round_partitions_that_are_being_read(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView
) -> None:
    with (
        occupy(cluster, settings, PartitionKey(1, "clicks", 0), GROUPS),
        closing(OffsetLookup(replace(settings, master_web_port=1), GROUPS)) as lookup,
    ):
        assert lookup.bounds(view) == EXPECTED


def test_a_broker_that_is_down_keeps_its_last_offsets(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        lookup.bounds(view)
        cluster.stop_broker(2)
        cluster.load("clicks", [NewMessage(0, b"new")])
        assert lookup.bounds(view)[StoreKey(2, "clicks", 1)] == StoreBounds(0, 140)
        assert lookup.bounds(view)[StoreKey(1, "clicks", 0)] == StoreBounds(56, 112)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        cluster.start_broker(2)
        cluster.load("clicks", [NewMessage(10_001, b"new")], broker_id=2)
        assert lookup.bounds(view)[StoreKey(2, "clicks", 1)] == StoreBounds(0, 168)


def test_a_broker_that_never_answered_is_an_error_in_time(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView
) -> None:
    cluster.stop_broker(2)
    impatient = replace(settings, retry_limit_ms=500)
    with closing(OffsetLookup(impatient, GROUPS)) as lookup, pytest.raises(TubeError, match=r"127\.0\.0\.1"):
        lookup.bounds(view)


def test_positions_of_a_group(cluster: EmbeddedTubeMQ, settings: ClientSettings, view: ClusterView) -> None:
    with occupy(cluster, settings, PartitionKey(1, "clicks", 0), ("etl",), offset=84):
        pass
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        assert lookup.group_positions(view, "etl") == {PartitionKey(1, "clicks", 0): 84}
        assert lookup.group_positions(view, "nobody") == {}
    blind = OffsetLookup(replace(settings, master_web_port=1), GROUPS)
    with closing(blind), pytest.raises(ConnectError, match=r"group etl.*masterWebPort"):
        blind.group_positions(view, "etl")
