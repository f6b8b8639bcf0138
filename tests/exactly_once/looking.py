"""What the brokers hold and what the table has, each read without the job and without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from deltalake import DeltaTable

from offsets_store.schema import INITIAL
from tests.exactly_once.judge import Place, Row
from tubeclient import (
    ClientSettings,
    ClusterView,
    OffsetLookup,
    OffsetRange,
    RangeReader,
    StoreBounds,
    StoreKey,
    fetch_view,
    reader_groups_of,
)
from tubeclient.wire.payload import decode_payload

__all__ = ["ends_of_brokers", "first_beginning", "held_by_brokers", "in_table", "row_count"]

Positions: TypeAlias = Mapping[str, int]
"""Index offsets by partition key."""

_GROUPS = reader_groups_of("judge")


def held_by_brokers(settings: ClientSettings, topic: str, until: Positions | None = None) -> list[Row]:
    """Every message of the topic, from the first that is there to the last, or to those before `until`."""
    view, bounds = _look(settings, topic)
    ends = _ends(view, bounds) if until is None else until
    with RangeReader(settings, _GROUPS) as reader:
        return [
            Row(Place(str(key), message.messageId), int(decode_payload(message.payLoadData, message.flag)[0]))
            for key in view.partitions()
            for pack in reader.read(view.broker_of(key), OffsetRange(key, bounds[key.store].min_offset, ends[str(key)]))
            for message in pack.messages
        ]


def ends_of_brokers(settings: ClientSettings, topic: str) -> Positions:
    """The offset after the last message of each partition, at this moment."""
    return _ends(*_look(settings, topic))


def _look(settings: ClientSettings, topic: str) -> tuple[ClusterView, Mapping[StoreKey, StoreBounds]]:
    view = fetch_view(settings, [topic], _GROUPS)
    with closing(OffsetLookup(settings, _GROUPS)) as lookup:
        return view, lookup.bounds(view)


def _ends(view: ClusterView, bounds: Mapping[StoreKey, StoreBounds]) -> Positions:
    return {str(key): bounds[key.store].max_offset for key in view.partitions()}


def first_beginning(path: Path) -> Positions:
    """Where the first run of all began, by the first version of the offsets table that says so; {} where none does.

    Later versions do not have it any more.
    """
    for version in range(DeltaTable(path).version() + 1):
        rows = DeltaTable(path, version=version).to_pyarrow_table().to_pylist()
        found = {
            f"{row['brokerId']}:{row['topic']}:{row['partitionId']}": row["nextOffset"]
            for row in rows
            if row["kind"] == INITIAL
        }
        if found:
            return found
    return {}


def in_table(path: Path) -> list[Row]:
    """Every row of the table."""
    rows = DeltaTable(path).to_pyarrow_table(columns=["partitionKey", "messageId", "value"])
    columns = (rows.column(name).to_pylist() for name in rows.column_names)
    return [Row(Place(key, message_id), int(value)) for key, message_id, value in zip(*columns, strict=True)]


def row_count(path: Path) -> int:
    """How many rows the table has, by its log alone; 0 where there is no table yet."""
    return DeltaTable(path).count() if DeltaTable.is_deltatable(str(path)) else 0
