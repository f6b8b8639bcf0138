"""The history of one group, found by comparing versions of the table.

The rows of a version are the truth. The log says when a version was written, and which commits of other groups to skip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from offsets_store.errors import NoSuchCommit
from offsets_store.rows import Row
from offsets_store.schema import POSITION
from offsets_store.storage import TableCommit
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.names import GroupName

if TYPE_CHECKING:
    from offsets_store.delta_rs import DeltaRsStorage

__all__ = ["GroupCommit", "GroupHistory", "Move", "history_of", "rows_at_sequence", "states_of"]

# How many commits of the table to look through, step by step. Each is one file of the log, and most may be other
# groups'.
_LOOK_STEPS: Final = (100, 1_000, 20_000)


class Move(NamedTuple):
    """How one commit moved one partition. Index offsets; None if the partition was unknown before, or after."""

    partition: PartitionKey
    start: int | None
    end: int | None

    @property
    def rows(self) -> int | None:
        """The most rows that lie between; negative for a move back, None if one side is unknown."""
        if self.start is None or self.end is None:
            return None
        return (self.end - self.start) // INDEX_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """One commit that changed a group's rows."""

    version: int
    """Of the Delta table."""

    committed_at: datetime
    """UTC."""

    operation: str
    """The Delta log's name: WRITE, or DELETE and others for changes by hand."""

    topic_set: str
    """The commit's topics, as in the column `topicSet`."""

    sequence: int | None
    """The commit's number within the group; None if no row belongs to this commit, as after a DELETE."""

    run_epoch: int | None
    """The run that wrote it: milliseconds since 1970 at its start."""

    client_version: str | None
    """The release that wrote it."""

    moves: tuple[Move, ...]
    """Sorted by partition; () if only the kept initial offsets changed, or nothing moved."""

    before_is_known: bool = True
    """False for the oldest kept commit without a kept predecessor: its `Move.start` are all None."""


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The known part of a group's past."""

    commits: tuple[GroupCommit, ...]
    """Newest first."""

    cut: bool
    """Whether the table no longer keeps older commits; false if only the limit ended the list."""


class _State(NamedTuple):
    commit: TableCommit
    rows: Sequence[Row]


def history_of(table: DeltaRsStorage, consumer_group: GroupName, limit: int) -> GroupHistory:
    """Return the group's last commits, at most `limit` (1 or more)."""
    if limit < 1:
        raise ValueError(f"a history of {limit} commits says nothing; ask for 1 or more")
    found: list[GroupCommit] = []
    after: _State | None = None
    for state in _states(table, consumer_group):
        if after is not None and (commit := _compare(state.rows, after)) is not None:
            found.append(commit)
            if len(found) == limit:
                return GroupHistory(tuple(found), cut=False)
        after = state
    if after is None:
        return GroupHistory((), cut=bool(table.commits(1)))
    cut = after.commit.version > 0
    if (commit := _compare([], after, before_is_known=not cut)) is not None:
        found.append(commit)
    return GroupHistory(tuple(found), cut)


def rows_at_sequence(table: DeltaRsStorage, consumer_group: GroupName, sequence: int) -> list[Row]:
    """Return the group's rows right after its commit `sequence`. Raises NoSuchCommit if there is none,
    or the table no longer keeps it."""
    above: int | None = None
    for state in _states(table, consumer_group, up_to=sequence):
        number = max((row.sequence for row in state.rows), default=0)
        if number == sequence:
            return list(state.rows)
        if number < sequence:
            raise NoSuchCommit(
                f"group {consumer_group!r} has no commit {sequence} in the offsets table: "
                + (f"{number} is followed by {above}" if above is not None else f"its newest is {number}")
                + "; `history` lists them"
            )
        above = number
    raise NoSuchCommit(
        f"commit {sequence} of group {consumer_group!r} is not kept any more, or never existed: the offsets table "
        "keeps its log for delta.logRetentionDuration; `history` lists what there is"
    )


def states_of(table: DeltaRsStorage, consumer_group: GroupName) -> Iterator[Sequence[Row]]:
    """Yield the group's rows after each kept commit that may have changed them, newest first."""
    return (state.rows for state in _states(table, consumer_group))


def _states(table: DeltaRsStorage, consumer_group: GroupName, up_to: int | None = None) -> Iterator[_State]:
    """The group's rows after each kept commit that may have changed them, newest first.

    Leaves out commits whose own number is above `up_to`.
    """
    looked_at = 0
    for step in _LOOK_STEPS:
        commits = table.commits(step)
        for commit in commits[looked_at:]:
            # Version 0 ends the comparison, whoever wrote it.
            others = commit.group is not None and commit.group != consumer_group and commit.version > 0
            too_new = up_to is not None and commit.sequence is not None and commit.sequence > up_to
            if others or (commit.group == consumer_group and too_new):
                continue
            rows = table.rows_at(consumer_group, commit.version)
            if rows is None:
                return
            yield _State(commit, rows)
        looked_at = len(commits)
        if looked_at < step:
            return


def _compare(before: Sequence[Row], after: _State, *, before_is_known: bool = True) -> GroupCommit | None:
    """What a commit changed; None if nothing."""
    old, new = set(before), set(after.rows)
    if old == new:
        return None
    # Rows of this commit or, after a DELETE by hand, a deleted row.
    written = max(new - old, key=lambda row: row.sequence, default=None)
    about = written or max(old - new, key=lambda row: row.sequence)
    was, now = _positions(before, about.topic_set), _positions(after.rows, about.topic_set)
    moves = [
        Move(partition, was.get(partition), now.get(partition))
        for partition in sorted(was.keys() | now.keys())
        if was.get(partition) != now.get(partition)
    ]
    return GroupCommit(
        version=after.commit.version,
        committed_at=after.commit.committed_at,
        operation=after.commit.operation,
        topic_set=about.topic_set,
        sequence=written and written.sequence,
        run_epoch=written and written.run_epoch,
        client_version=written and written.client_version,
        moves=tuple(moves),
        before_is_known=before_is_known,
    )


def _positions(rows: Sequence[Row], topic_set: str) -> Mapping[PartitionKey, int]:
    return {row.partition: row.next_offset for row in rows if row.kind == POSITION and row.topic_set == topic_set}
