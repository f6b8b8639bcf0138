"""The table's rows as values and as Arrow data, and what the rows of one group mean; pure, no I/O."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from offsets_store.errors import SchemaMismatch
from offsets_store.progress import GroupKey, GroupProgress, PartitionProgress, PartRead
from offsets_store.schema import COLUMNS, INITIAL, POSITION, VERSION, arrow_schema
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey

if TYPE_CHECKING:
    import pyarrow


_NO_PARTITION = PartitionKey(-1, "", -1)
"""Stands for "the initial offsets named no partition", which must be remembered too."""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_BEGINS: Final = "it begins here; no batch is complete yet"

RESET: Final = "(offsets reset)"
"""Suffix of `clientVersion` in rows that `tubeclient offsets reset` wrote."""


class Row(NamedTuple):
    """One row; the fields are the columns of `offsets_store.schema.COLUMNS` but for `rowVersion`, in order."""

    consumer_group: str
    topic_set: str
    kind: str
    broker_id: int
    topic: str
    partition_id: int
    next_offset: int
    end_offset: int | None
    lag: int | None
    node_id: int | None
    start_offset: int | None
    readers: str | None
    reason: str | None
    source_count: int
    run_epoch: int
    sequence: int
    starting_offsets: str | None
    updated_at: datetime
    client_version: str

    @property
    def partition(self) -> PartitionKey:
        return PartitionKey(self.broker_id, self.topic, self.partition_id)

    @property
    def by_reset(self) -> bool:
        """Whether a reset wrote the row: its run was over with it, and runs before it stop at their next commit."""
        return self.client_version.endswith(RESET)

    def belongs_to(self, key: GroupKey) -> bool:
        return self.consumer_group == key.consumer_group and self.topic_set == key.topic_set


# Implemented in C, because each commit looks at all of the group's rows.
_BY_RUN: Final = attrgetter("run_epoch", "sequence")


def checked(rows: list[Row]) -> list[Row]:
    """The rows of a group. SchemaMismatch if no release writes one of them so: it would move the group somewhere."""
    for row in rows:
        if row.next_offset % INDEX_ENTRY_BYTES or row.next_offset < 0:
            raise _foreign(
                row, f"nextOffset {row.next_offset}, which is not 0 or a positive multiple of {INDEX_ENTRY_BYTES}"
            )
    return rows


def _foreign(row: Row, what: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the offsets table's row of group {row.consumer_group!r:.200}, broker {row.broker_id}, topic"
        f" {row.topic!r:.200}, partition {row.partition_id} has {what}; another tool wrote it. Correct or delete the"
        " row"
    )


class Stamp(NamedTuple):
    """The values that all rows of one commit share."""

    source_count: int
    run_epoch: int
    sequence: int
    updated_at: datetime
    client_version: str


def position_rows(key: GroupKey, progress: Iterable[PartitionProgress], stamp: Stamp) -> list[Row]:
    """One row per partition: its next offset."""
    values = (
        (*p.partition, p.next_offset, p.end_offset, p.lag, p.node_id, p.start_offset, _text(p.readers), p.reason)
        for p in progress
    )
    return _rows(key, POSITION, values, None, stamp)


def initial_rows(
    key: GroupKey,
    starting: str,
    offsets: Mapping[PartitionKey, int],
    stamp: Stamp,
) -> list[Row]:
    """One row per partition: its initial offset for the options `starting`."""
    answer = offsets or {_NO_PARTITION: 0}
    values = ((*partition, offset, *[None] * 6) for partition, offset in answer.items())
    return _rows(key, INITIAL, values, starting, stamp)


def _rows(
    key: GroupKey, kind: str, values: Iterable[tuple[object, ...]], starting: str | None, stamp: Stamp
) -> list[Row]:
    """One row for each of `values` (the fields from `broker_id` to `reason`). Fast: each commit builds all rows."""
    source_count, run_epoch, sequence, updated_at, client_version = stamp
    before = (key.consumer_group, key.topic_set, kind)
    behind = (source_count, run_epoch, sequence, starting, updated_at, client_version)
    return [Row._make((*before, *value, *behind)) for value in values]


def _text(readers: Iterable[PartRead]) -> str | None:
    """The value of the column `readers`."""
    parts = [part.as_json() for part in readers]
    return json.dumps(parts) if parts else None


def _parts(row: Row) -> tuple[PartRead, ...]:
    """The parts in the column `readers`."""
    try:
        found = json.loads(row.readers) if row.readers else ()
        return tuple(PartRead(part["nodeId"], part["startOffset"], part["endOffset"]) for part in found)
    except (ValueError, TypeError, KeyError) as error:
        raise _foreign(row, f"readers {row.readers!r:.50}, which is not a JSON list of parts") from error


def newest_run(group_rows: Iterable[Row]) -> Row | None:
    """The last row that the group's newest run wrote; None if the group has no rows."""
    return max(group_rows, key=_BY_RUN, default=None)


def next_sequence(group_rows: Iterable[Row], transaction_version: int | None) -> int:
    """The number of the group's next commit. `transaction_version` keeps it rising after rows were deleted by hand."""
    return 1 + max([transaction_version or 0, *(row.sequence for row in group_rows)])


def progress_of(key: GroupKey, group_rows: Iterable[Row]) -> GroupProgress | None:
    """The progress of `key` in the group's rows; None if it has no position."""
    rows = [row for row in group_rows if row.belongs_to(key) and row.kind == POSITION]
    return _progress(key, rows, rows) if rows else None


def all_progress(group_rows: Sequence[Row]) -> list[GroupProgress]:
    """The progress of each topic set of the group, sorted by its text; of the newest run also where it begins, while
    none of its batches is complete."""
    sets = sorted({(row.consumer_group, row.topic_set) for row in group_rows if row.kind == POSITION})
    found = [progress for names in sets if (progress := progress_of(GroupKey.of(*names), group_rows)) is not None]
    newest = newest_run(group_rows)
    if newest is None or (newest.consumer_group, newest.topic_set) in sets:
        return found
    key = GroupKey.of(newest.consumer_group, newest.topic_set)
    mine = [row for row in group_rows if row.belongs_to(key)]
    begins = [row._replace(reason=_BEGINS) for row in mine if row.topic]
    return [*found, _progress(key, begins, mine)]


def _progress(key: GroupKey, rows: Iterable[Row], written: Iterable[Row]) -> GroupProgress:
    """The progress in `rows`, as of the last commit of `written`."""
    last = max(written, key=_BY_RUN)
    return GroupProgress(
        group=key,
        partitions=tuple(
            PartitionProgress(r.partition, r.next_offset, r.end_offset, r.node_id, r.start_offset, _parts(r), r.reason)
            for r in sorted(rows, key=lambda row: row.partition)
        ),
        source_count=last.source_count,
        run_epoch=last.run_epoch,
        sequence=last.sequence,
        updated_at=last.updated_at,
        client_version=last.client_version,
    )


def initial_of(key: GroupKey, starting: str, group_rows: Iterable[Row]) -> dict[PartitionKey, int] | None:
    """The initial offsets kept for the options `starting`; None if none are kept."""
    rows = [r for r in group_rows if r.belongs_to(key) and r.starting_offsets == starting]
    if not rows:
        return None
    return {row.partition: row.next_offset for row in rows if row.partition != _NO_PARTITION}


def keeps_initial(key: GroupKey, group_rows: Iterable[Row]) -> bool:
    """Whether initial offsets are kept, for any starting options."""
    return any(row.belongs_to(key) and row.kind == INITIAL for row in group_rows)


def positions_of(topics: Collection[str], group_rows: Iterable[Row]) -> dict[PartitionKey, int]:
    """The group's newest position in each partition of `topics`, under any topic set."""
    newest: dict[PartitionKey, Row] = {}
    for row in group_rows:
        if row.kind != POSITION or row.topic not in topics:
            continue
        known = newest.get(row.partition)
        if known is None or (row.sequence, row.updated_at) > (known.sequence, known.updated_at):
            newest[row.partition] = row
    return {partition: newest[partition].next_offset for partition in sorted(newest)}


def rows_to_arrow(rows: Sequence[Row]) -> pyarrow.Table:
    """The rows as data for the table."""
    import pyarrow as pa

    schema = arrow_schema()
    if not rows:
        return schema.empty_table()
    columns = [*zip(*rows, strict=True), (VERSION,) * len(rows)]
    return pa.table([_array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema)


def rows_from_arrow(found: pyarrow.Table) -> list[Row]:
    """The table's data as rows; other columns are ignored. SchemaMismatch: a newer release wrote one of them."""
    *columns, versions = (_values_of(found.column(column.name)) for column in COLUMNS)
    rows = list(map(Row._make, zip(*columns, strict=True)))
    if (newest := max(versions, default=VERSION)) > VERSION:
        by = rows[versions.index(newest)]
        raise SchemaMismatch(
            f"the offsets table's rows of group {by.consumer_group} have version {newest}: release "
            f"{by.client_version} of pyspark-tubeclient wrote them, but this release reads and writes version "
            f"{VERSION}; upgrade"
        )
    return rows


def _values_of(column: pyarrow.ChunkedArray) -> list[Any]:
    """The column's values as Python's; times are in UTC, to the microsecond.

    pyarrow's own times import pandas, which takes longer than all else that a command needs.
    """
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist()
        return found
    numbers = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    times = {number: _EPOCH + timedelta(microseconds=number) for number in {*numbers} if number is not None}
    return [times.get(number) for number in numbers]


def _array(values: tuple[object, ...], type_: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa

    # Half of the columns are the same in all rows of a commit.
    if values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], type_), len(values))
    return pa.array(values, type_)
