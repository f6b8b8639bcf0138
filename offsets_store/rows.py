"""The table's rows as values, and what can be concluded from the rows of one group; pure, no I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from offsets_store.progress import GroupKey, GroupProgress, PartitionProgress, PartRead
from offsets_store.schema import INITIAL, POSITION, WAITING
from tubeclient.keys import PartitionKey

__all__ = [
    "COMPANION",
    "Row",
    "Stamp",
    "initial_of",
    "initial_rows",
    "keeps_initial",
    "moved_on",
    "newest_run",
    "next_sequence",
    "places_of",
    "position_rows",
    "positions_of",
    "progress_of",
    "topic_sets_of",
    "waiting_in",
    "waiting_of",
    "waiting_rows",
]

_NO_PARTITION = PartitionKey(-1, "", -1)
"""Stands for "the first answer named no partition at all", which has to be remembered as well."""


_NO_OFFSET = -1
"""Stands for the offset of a partition that has none yet."""

COMPANION = "+companion"
"""Ends the `clientVersion` of rows that a run's companion wrote, in a form that every writer of Delta keeps."""


class Row(NamedTuple):
    """One row; fields are the columns of `offsets_store.schema.COLUMNS`, in their order."""

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
    def by_companion(self) -> bool:
        """Whether not the run of this epoch wrote it, but a companion in its name."""
        return self.client_version.endswith(COMPANION)

    def belongs_to(self, key: GroupKey) -> bool:
        return self.consumer_group == key.consumer_group and self.topic_set == key.topic_set


# In C, as each commit looks at all of the group's rows.
_BY_RUN: Final = attrgetter("run_epoch", "sequence")


class Stamp(NamedTuple):
    """What all rows of one commit share."""

    source_count: int
    run_epoch: int
    sequence: int
    updated_at: datetime
    client_version: str


def position_rows(key: GroupKey, progress: Iterable[PartitionProgress], stamp: Stamp) -> list[Row]:
    """One row per partition: where its next batch starts."""
    ordered = sorted(progress, key=itemgetter(0))
    values = (
        (*p.partition, p.next_offset, p.end_offset, p.lag, p.node_id, p.start_offset, _text(p.readers), p.reason)
        for p in ordered
    )
    return _rows(key, POSITION, values, None, stamp)


def moved_on(
    key: GroupKey,
    mine: Sequence[Row],
    progress: Iterable[PartitionProgress],
    stamp: Stamp,
    follows: Callable[[PartitionProgress, Row], bool],
) -> tuple[list[Row], bool]:
    """The positions among the key's rows `mine` with those of `progress` in their places that differ from them and
    follow on them, and whether there are any. Partitions that wait and have no position still are among the rows.
    """
    known = {row.partition: row for row in mine if row.kind == POSITION}
    news = [
        p
        for p in progress
        if (row := known.get(p.partition)) is None or (row.next_offset != p.next_offset and follows(p, row))
    ]
    entered = {p.partition for p in news}
    stay = [known[partition] for partition in sorted(known.keys() - entered)]
    waiting = [row for row in mine if row.kind == WAITING and row.partition not in entered]
    return [*position_rows(key, news, stamp), *stay, *waiting], bool(news)


def initial_rows(
    key: GroupKey,
    starting: str,
    offsets: Mapping[PartitionKey, int],
    waiting: Mapping[PartitionKey, str],
    stamp: Stamp,
) -> list[Row]:
    """One row per partition: where `starting` made the query begin, or as `reason` the text of where it will."""
    answer = offsets or {_NO_PARTITION: 0}
    values = [
        *((*partition, offset, *[None] * 6) for partition, offset in sorted(answer.items())),
        *_without_offset(waiting),
    ]
    return _rows(key, INITIAL, values, starting, stamp)


def waiting_rows(key: GroupKey, waiting: Mapping[PartitionKey, str], stamp: Stamp) -> list[Row]:
    """One row per partition that has no offset yet, with the text of where it will begin as `reason`."""
    return _rows(key, WAITING, _without_offset(waiting), None, stamp)


def _without_offset(waiting: Mapping[PartitionKey, str]) -> Iterable[tuple[object, ...]]:
    return ((*partition, _NO_OFFSET, *[None] * 5, text) for partition, text in sorted(waiting.items()))


def _rows(
    key: GroupKey, kind: str, values: Iterable[tuple[object, ...]], starting: str | None, stamp: Stamp
) -> list[Row]:
    """A row of each of `values`, which are the fields from `broker_id` to `reason`; fast, as each commit makes all."""
    source_count, run_epoch, sequence, updated_at, client_version = stamp
    before = (key.consumer_group, key.topic_set, kind)
    behind = (source_count, run_epoch, sequence, starting, updated_at, client_version)
    return [Row._make((*before, *value, *behind)) for value in values]


def _text(readers: Iterable[PartRead]) -> str | None:
    """As the column `readers` has them."""
    parts = [part.as_json() for part in readers]
    return json.dumps(parts) if parts else None


def _parts(text: str | None) -> tuple[PartRead, ...]:
    found = json.loads(text) if text else ()
    return tuple(PartRead(part["nodeId"], part["startOffset"], part["endOffset"]) for part in found)


def newest_run(group_rows: Iterable[Row]) -> Row | None:
    """The row that the newest run of the group wrote last; None for a group without rows."""
    return max(group_rows, key=_BY_RUN, default=None)


def next_sequence(group_rows: Iterable[Row], transaction_version: int | None) -> int:
    """The number of the group's next commit; `transaction_version` counts on where somebody deleted the rows."""
    return 1 + max([transaction_version or 0, *(row.sequence for row in group_rows)])


def progress_of(key: GroupKey, group_rows: Iterable[Row]) -> GroupProgress | None:
    """What the group's rows say about `key`; None if no position is kept for it."""
    rows = sorted((r for r in group_rows if r.belongs_to(key) and r.kind == POSITION), key=lambda r: r.partition)
    if not rows:
        return None
    # Companions, and consumers that share a run, each renew the rows of their own partitions.
    last = max(rows, key=_BY_RUN)
    return GroupProgress(
        group=key,
        partitions=tuple(
            PartitionProgress(
                r.partition, r.next_offset, r.end_offset, r.node_id, r.start_offset, _parts(r.readers), r.reason
            )
            for r in rows
        ),
        source_count=last.source_count,
        run_epoch=last.run_epoch,
        sequence=last.sequence,
        updated_at=last.updated_at,
        client_version=last.client_version,
    )


def topic_sets_of(group_rows: Iterable[Row]) -> list[GroupKey]:
    """The topic sets that the group has positions for, sorted by their text."""
    names = {(row.consumer_group, row.topic_set) for row in group_rows if row.kind == POSITION}
    return [GroupKey.of(group, topic_set) for group, topic_set in sorted(names)]


def initial_of(key: GroupKey, starting: str, group_rows: Iterable[Row]) -> dict[PartitionKey, int] | None:
    """The kept first answer to `starting`; None if none is kept."""
    rows = _initial(key, starting, group_rows)
    if not rows:
        return None
    return {
        row.partition: row.next_offset
        for row in rows
        if row.partition != _NO_PARTITION and row.next_offset != _NO_OFFSET
    }


def waiting_of(key: GroupKey, starting: str, group_rows: Iterable[Row]) -> dict[PartitionKey, str]:
    """The partitions of the kept first answer that had no offset yet, and the text that is kept in its place."""
    return places_of(_initial(key, starting, group_rows))


def places_of(rows: Iterable[Row]) -> dict[PartitionKey, str]:
    """The partitions among `rows` that have no offset, and the text that is kept in its place."""
    return {row.partition: row.reason or "" for row in rows if row.next_offset == _NO_OFFSET}


def waiting_in(topics: Collection[str], group_rows: Sequence[Row]) -> dict[PartitionKey, str]:
    """Where the group is to begin in those partitions of `topics` of which it has no position yet, as their broker was
    down, whatever topic set it was recorded under."""
    begun = {row.partition for row in group_rows if row.kind == POSITION}
    waits = [row for row in group_rows if row.kind == WAITING and row.topic in topics and row.partition not in begun]
    return places_of(sorted(waits, key=_BY_RUN))


def _initial(key: GroupKey, starting: str, group_rows: Iterable[Row]) -> list[Row]:
    return [r for r in group_rows if r.belongs_to(key) and r.kind == INITIAL and r.starting_offsets == starting]


def keeps_initial(key: GroupKey, group_rows: Iterable[Row]) -> bool:
    """Whether the first answer to any starting options is kept."""
    return any(row.belongs_to(key) and row.kind == INITIAL for row in group_rows)


def positions_of(topics: Collection[str], group_rows: Iterable[Row]) -> dict[PartitionKey, int]:
    """The group's newest position in each partition of `topics`, whatever topic set it was recorded under."""
    newest: dict[PartitionKey, Row] = {}
    for row in group_rows:
        if row.kind != POSITION or row.topic not in topics:
            continue
        known = newest.get(row.partition)
        if known is None or (row.sequence, row.updated_at) > (known.sequence, known.updated_at):
            newest[row.partition] = row
    return {partition: newest[partition].next_offset for partition in sorted(newest)}
