"""Where the rows of each table of a group end, and what each table takes of a round. Pure.

Tables of one group need not be equally far: a run may die between two of their commits, and a table that refuses rows
is left behind. Messages carry no offsets, so a row does not say whether a table has it. Its round does: a round never
goes past a place where the rows of another table end, and a table takes of a round the partitions in which its own rows
end where the round begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from spark_source.offsets.offsets import Offsets
from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.record import Move, Reached

_NOTHING = -1
"""Before the first offset: where a table's rows end in a partition of which it has none."""


def ends_of(number: int, ends: Offsets, reached: Reached | None, group_ends: Offsets) -> Offsets:
    """Where a stream's rows end, by its table's newest commit, with this `number` (0: it has none) and these `ends`,
    and by what the counts table says of the stream.

    The counts table says up to where there is nothing more for a table after a commit of that number: `reached`, None
    for a stream that it does not know; without a commit its rows can only come after `group_ends`.
    """
    if reached is None:
        return ends if number else group_ends
    if number == reached.number:
        return group_ends if reached.ends is None else reached.ends
    return ends


class Missed(NamedTuple):
    """What came of a table's ends by moves of the group's offsets that the table does not know of."""

    ends: Offsets
    """Where its rows end by that."""
    reset: frozenset[str]
    """The topics whose offsets were reset meanwhile."""
    unknown: frozenset[str]
    """The topics whose moves are not all known; in those `ends` may be wrong."""


def missed(ends: Offsets, own: Mapping[str, int], resets: Mapping[str, int], moves: Sequence[Move]) -> Missed:
    """For a table whose rows ended at `ends` after so many moves of each topic as `own` says, in a group that has had
    `resets`, the last of which are `moves`."""
    reset, unknown = set[str](), set[str]()
    for topic in {key.topic for key in ends}:
        before, now = own.get(topic, 0), resets.get(topic, 0)
        new = [move for move in moves if move.topic == topic and before < move.number <= now]
        if len(new) < now - before:
            unknown.add(topic)
        for move in new:
            if move.is_reset:
                reset.add(topic)
                ends = ends.without_topics({topic}).merge(move.ends)
            else:
                ends = ends.clamp({}, move.ends)
    return Missed(ends, frozenset(reset), frozenset(unknown))


def went_back(start: Offsets, end: Offsets) -> Offsets:
    """The part of `end` that is before `start`: brokers lost what there was."""
    return Offsets({key: at for key, at in end.items() if at < start.get(key, 0)})


def lowest(several: Collection[Offsets]) -> Offsets:
    """The first offset that any of the tables needs, in the partitions of which all have rows."""
    first, *others = several
    common = set(first).intersection(*others)
    return Offsets({key: min(ends[key] for ends in several) for key in common})


def highest(several: Collection[Offsets]) -> Offsets:
    """The end of what any of the tables has."""
    keys = {key for ends in several for key in ends}
    return Offsets({key: max(ends.get(key, 0) for ends in several) for key in keys})


def end_of_round(start: Offsets, end: Offsets, several: Collection[Offsets]) -> Offsets:
    """`end`, but not past a place where the rows of a table end."""
    places: dict[PartitionKey, set[int]] = {}
    for ends in several:
        for key, at in ends.items():
            places.setdefault(key, set()).add(at)
    return Offsets(
        {
            key: min((place for place in places.get(key, ()) if start.get(key, _NOTHING) < place < at), default=at)
            for key, at in end.items()
        }
    )


def everything(start: Offsets, end: Offsets) -> set[PartitionKey]:
    """The partitions that a round reads."""
    return {key for key, at in end.items() if at != start.get(key)}


def taken(ends: Offsets, start: Offsets, end: Offsets) -> set[PartitionKey]:
    """The partitions of a round that a table takes."""
    return {key for key in everything(start, end) if _takes(ends, start, key)}


def after(ends: Offsets, start: Offsets, end: Offsets) -> Offsets:
    """Where a table's rows end after a round. A partition that left the cluster leaves the offsets; one in which data
    was lost goes back."""
    moved = {key: at for key, at in end.items() if _takes(ends, start, key) or at < start.get(key, _NOTHING)}
    return ends.without(start.keys() - end.keys()).merge(moved)


def _takes(ends: Mapping[PartitionKey, int], start: Mapping[PartitionKey, int], key: PartitionKey) -> bool:
    return ends.get(key, _NOTHING) <= start.get(key, _NOTHING)
