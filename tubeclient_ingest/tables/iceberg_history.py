"""What the snapshots of an Iceberg table say happened to it, in the words of `history`. Pure.

Iceberg has no RESTORE: `main` is set back to an earlier snapshot. Later ones stay in the metadata, and tell it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tubeclient.errors import ConfigurationError
from tubeclient_ingest.commits.history import Commit
from tubeclient_ingest.commits.record import SinkRecord

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["RECORD", "commits_of"]

RECORD: Final = "tubeclient.record"
"""What a snapshot's summary has of a group's commit."""


def commits_of(found: TableMetadata, where: str) -> Iterator[Commit]:
    """The commits of the table at `where`, newest first, as Delta's history would have them."""
    from pyiceberg.table.metadata import TableMetadataV1

    by_id = {snapshot.snapshot_id: snapshot for snapshot in found.snapshots}
    on_main: list[Snapshot] = []
    at: int | None = found.current_snapshot_id
    while at is not None and at in by_id:
        on_main.append(by_id[at])
        at = by_id[at].parent_snapshot_id
    there = {snapshot.snapshot_id for snapshot in on_main}
    undone = [
        snapshot
        for snapshot in found.snapshots
        if snapshot.snapshot_id not in there and _record_in(snapshot) is not None
    ]
    undone.sort(key=_number_of)
    newest = 0 if isinstance(found, TableMetadataV1) else found.last_sequence_number

    def undone_above(number: int) -> Iterator[Commit]:
        while undone and _number_of(undone[-1]) > number:
            yield _commit_of(undone.pop(), by_id, where)

    for snapshot in on_main:
        number = _number_of(snapshot)
        if undone and _number_of(undone[-1]) > number:
            yield Commit(_number_of(undone[-1]), "RESTORE", {"version": str(number)}, {}, None)
            yield from undone_above(number)
        yield _commit_of(snapshot, by_id, where)
        newest = number
    # Of a snapshot whose parent expired pyiceberg takes the parent away, and CREATE OR REPLACE TABLE begins anew under
    # the same id. What is left of older ones, as with a tag, says nothing of those between.
    if newest == (1 if on_main else 0):
        yield Commit(0, "CREATE TABLE", {}, {}, None, removes=False)
    elif not on_main:
        yield Commit(newest, "RESTORE", {"version": "-1"}, {}, None)
        yield from undone_above(-1)


def _number_of(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def _record_in(snapshot: Snapshot) -> str | None:
    return None if snapshot.summary is None else snapshot.summary.additional_properties.get(RECORD)


def _commit_of(snapshot: Snapshot, by_id: Mapping[int, Snapshot], where: str) -> Commit:
    """A snapshot. By Iceberg's own words: `append` adds files, `replace` leaves the rows as they are. What the others
    leave is unknown."""
    summary = snapshot.summary
    operation = "" if summary is None else summary.operation.value
    added = "0" if summary is None else summary.additional_properties.get("added-records", "0")
    written = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
    record = None
    if operation == "append":
        try:
            record = SinkRecord.parse(_record_in(snapshot))
        except ConfigurationError as error:
            text = f"snapshot {snapshot.snapshot_id} of {where}: {error}"
            raise ConfigurationError(text, condition=error.condition) from None
    source = None if summary is None else summary.additional_properties.get("source-snapshot-id")
    if source is not None and ((picked := by_id.get(int(source))) is None or _record_in(picked) is not None):
        operation = "cherry-pick"  # perhaps of the group's rows, which were set back
    keeps = operation in ("append", "replace")
    name = "WRITE" if keeps else operation
    mode = {"mode": "Append"} if operation == "append" else {}
    return Commit(
        _number_of(snapshot), name, mode, {"numOutputRows": added}, record, removes=not keeps, written=written
    )
