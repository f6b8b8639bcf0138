"""Reading ranges with our range reader."""

from __future__ import annotations

from contextlib import closing

from tests.conformance.cluster import Cluster
from tubeclient import ClientSettings, ClusterView, OffsetLookup, OffsetRange, RangeReader, StoreKey, reader_groups_of
from tubeclient.wire.payload import decode_payload

__all__ = ["GROUPS", "ends", "read"]

GROUPS = reader_groups_of("tubeclient_tests")


def ends(settings: ClientSettings, view: ClusterView) -> dict[StoreKey, int]:
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        return {store: bounds.max_offset for store, bounds in lookup.bounds(view).items()}


def read(tube: Cluster, view: ClusterView, piece: OffsetRange) -> list[tuple[int, bytes, str]]:
    """(message id, body, attribute text) of a range."""
    sizes = {(one.broker_id, one.topic): one.partitions_per_store for one in view.layouts}
    with RangeReader(tube.settings, GROUPS, visit_token=tube.visit_token(), store_sizes=sizes) as reader:
        return [
            (number, *decode_payload(payload, flag))
            for pack in reader.read(view.broker_of(piece.partition), piece)
            for number, payload, flag in zip(*pack.columns, strict=True)
        ]
