"""A group's last positions, partition by partition, from the rows of the table's versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from offsets_store.health.judgement import PastPosition
from offsets_store.progress import GroupKey
from offsets_store.rows import Row, newest_run, places_of
from offsets_store.schema import WAITING
from tubeclient.keys import PartitionKey

__all__ = ["GroupPast", "past_of"]

_STATES_PER_COMMIT: Final = 3
"""How many of the group's commits to look at for each one that is wanted: consumers that share a run, and companions,
write a partition's row only when it moves."""


@dataclass(frozen=True, slots=True)
class GroupPast:
    """The last positions of a group's newest run."""

    group: GroupKey
    """With the topics of the run that wrote last. Runs of other topics are over: a newer run fences them."""

    positions: Mapping[PartitionKey, tuple[PastPosition, ...]]
    """By partition, the oldest first; () for a partition whose broker was down whenever the group was read."""


def past_of(states: Iterable[Sequence[Row]], limit: int) -> GroupPast | None:
    """The last positions, at most `limit` for each partition, from a group's rows after its commits, newest first.

    Takes no more of `states` than it needs. None if the group has no rows.
    """
    found: dict[PartitionKey, list[Row]] = {}
    key: GroupKey | None = None
    for number, rows in enumerate(states, start=1):
        if key is None:
            newest = newest_run(rows)
            if newest is None:
                return None
            key = GroupKey.of(newest.consumer_group, newest.topic_set)
            found = {partition: [] for partition in places_of(row for row in rows if row.belongs_to(key))}
            found |= {partition: [] for partition in _rows_of(key, rows)}
        for partition, row in _rows_of(key, rows).items():
            taken = found.get(partition)
            # A row that a later commit did not write is one observation. So is one that got its node added later.
            if taken is not None and len(taken) < limit and not (taken and taken[-1].updated_at == row.updated_at):
                taken.append(row)
        if all(len(taken) >= limit for taken in found.values()) or number >= _STATES_PER_COMMIT * limit:
            break
    if key is None:
        return None
    return GroupPast(
        key,
        {
            partition: tuple(PastPosition(row.updated_at, row.next_offset, row.end_offset) for row in reversed(taken))
            for partition, taken in sorted(found.items())
        },
    )


def _rows_of(key: GroupKey, rows: Sequence[Row]) -> dict[PartitionKey, Row]:
    """The row of each partition that has an offset: its position, or where a query that has completed no batch yet
    began."""
    found: dict[PartitionKey, Row] = {}
    for row in rows:
        known = found.get(row.partition)
        begun = row.belongs_to(key) and row.kind != WAITING and row.topic and row.next_offset >= 0
        if begun and (known is None or row.sequence > known.sequence):
            found[row.partition] = row
    return found
