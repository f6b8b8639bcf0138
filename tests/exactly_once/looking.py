"""Reads what the brokers hold and what the table has, without the job and without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from offsets_store.schema import INITIAL, POSITION
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
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.tables.iceberg_history import commits_of

__all__ = [
    "ICEBERG_TABLE",
    "Positions",
    "end_of_sink",
    "ends_of_brokers",
    "first_beginning",
    "held_by_brokers",
    "in_table",
    "is_iceberg",
    "kept",
    "newest_commit_of",
    "records",
    "row_count",
]

Positions: TypeAlias = Mapping[str, int]
"""Index offsets by partition key."""

ICEBERG_TABLE: Final = "storm.numbers"
_GROUPS = reader_groups_of("judge")


def held_by_brokers(settings: ClientSettings, topic: str, until: Positions | None = None) -> list[Row]:
    """Every number in the topic, from the first that is there to the last, or to those before `until`."""
    view, bounds = _look(settings, topic)
    ends = _ends(view, bounds) if until is None else until
    with RangeReader(settings, _GROUPS) as reader:
        return [
            Row(Place(str(key), message.message_id), int(message.body))
            for key in view.partitions()
            for pack in reader.read(view.broker_of(key), OffsetRange(key, bounds[key.store].min_offset, ends[str(key)]))
            for message in pack
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
    versions = range(DeltaTable(path).version() + 1)
    return next(filter(None, (_of_kind(INITIAL, _rows(DeltaTable(path, version=version))) for version in versions)), {})


def kept(path: Path) -> tuple[Positions, Positions]:
    """The offsets table's positions, and where the query began as far as it keeps that; {} for what there is not."""
    if not DeltaTable.is_deltatable(str(path)):
        return {}, {}
    rows = _rows(DeltaTable(path))
    return _of_kind(POSITION, rows), _of_kind(INITIAL, rows)


def _rows(table: DeltaTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return rows


def _of_kind(kind: str, rows: list[dict[str, Any]]) -> Positions:
    return {
        f"{row['brokerId']}:{row['topic']}:{row['partition']}": row["nextOffset"] for row in rows if row["kind"] == kind
    }


def end_of_sink(path: Path) -> Positions:
    """Where the rows in the job's table end, by its newest commit that says so; {} where none does."""
    for _, record in records(path):
        return {str(key): at for key, at in record.ends.items()}
    return {}


def newest_commit_of(path: Path, run_id: str) -> int:
    """The newest version of the job's table that this run wrote; -1 for none."""
    return next((version for version, record in records(path) if record.run_id == run_id), -1)


def records(path: Path) -> Iterator[tuple[int, SinkRecord]]:
    """Version and what the job says of it, the newest first."""
    if is_iceberg(path):
        table = _iceberg(path)
        commits = () if table is None else commits_of(table.metadata, ICEBERG_TABLE)
        yield from ((one.version, one.record) for one in commits if one.record is not None)
    for log in sorted((path / "_delta_log").glob("*.json"), reverse=True):
        for line in log.read_text().splitlines():
            record = SinkRecord.parse(json.loads(line).get("commitInfo", {}).get("userMetadata"))
            if record is not None:
                yield int(log.stem), record


def is_iceberg(path: Path) -> bool:
    """Whether it is a folder of Iceberg tables with their catalog."""
    return (path / "catalog.db").exists()


def _iceberg(path: Path) -> Table | None:
    if not is_iceberg(path):
        return None
    with suppress(NoSuchTableError, OperationalError):  # before the job has made it
        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{path}/catalog.db", init_catalog_tables="false")
        return catalog.load_table(ICEBERG_TABLE)
    return None


def in_table(path: Path) -> list[Row]:
    """Every row of the table."""
    names = ["partitionKey", "messageId", "value"]
    if (table := _iceberg(path)) is None:
        rows = DeltaTable(path).to_pyarrow_table(columns=names).to_pylist()
    else:
        rows = table.scan(selected_fields=tuple(names)).to_arrow().to_pylist()
    return [Row(Place(row["partitionKey"], row["messageId"]), int(row["value"])) for row in rows]


def row_count(path: Path) -> int:
    """How many rows the table has, by its log alone; 0 where there is no table yet."""
    if (table := _iceberg(path)) is not None:
        return table.scan().count()
    return DeltaTable(path).count() if DeltaTable.is_deltatable(str(path)) else 0
