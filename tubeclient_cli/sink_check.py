"""Whether a batch goes on exactly where the group's rows in the table end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.settings import TARGET, says_offsets
from tubeclient_cli.sink_history import SinkState

__all__ = ["Batch", "RowsWouldBeMissing", "RowsWouldRepeat", "UnknownRows", "check_batch", "trusted"]

_NEW: Final = "Start with a new checkpoint: it goes on where the table ends"


class RowsWouldRepeat(ConfigurationError):
    """The batch begins before the end of the group's rows: some would be in the table twice."""


class RowsWouldBeMissing(ConfigurationError):
    """The batch begins past the end of the group's rows: what lies between would never be in the table."""


class UnknownRows(ConfigurationError):
    """Nobody can say which rows of the group the table has: its history is cut, or somebody took rows out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is to be written."""

    query_id: str
    """The identity of Spark's checkpoint."""
    batch_id: int
    start: Mapping[PartitionKey, int]
    end: Mapping[PartitionKey, int]

    def __str__(self) -> str:
        return f"batch {self.batch_id} of this checkpoint (query {self.query_id})"


def check_batch(
    state: SinkState,
    batch: Batch,
    chosen: Mapping[PartitionKey, int] | None = None,
    *,
    may_lose: bool = False,
) -> bool:
    """Whether the batch has to be written: False if the table has it already.

    `chosen` are places past the table's end where the user wanted the query to begin; `may_lose` says that partitions
    may enter past the end, as the brokers no longer have what lies between (failOnDataLoss=false). Raises
    RowsWouldRepeat or RowsWouldBeMissing for a batch that does not begin where the table ends. Such a batch comes of an
    old checkpoint that is taken up again after a newer one went on from the table, of one that was put back to an
    earlier state, of a run that was thought dead, and of a table that was put back.
    """
    newest = state.record
    if newest is None:
        if state.is_whole and batch.batch_id > 0:
            raise RowsWouldBeMissing(
                f"{batch} is not its first, and the table has none of the group's rows. Is it another table, or "
                "one that was put back? Start with a new checkpoint: it reads what the table does not have"
            )
        return True
    held = newest.ends
    if newest.query_id == batch.query_id and batch.batch_id <= newest.batch_id:
        beyond = [p for p, at in batch.end.items() if at > held.get(p, -1)]
        if beyond:
            first = min(beyond)
            raise RowsWouldRepeat(
                f"{batch} is in the table already, as another one: it would end at {batch.end[first]} in {first}, and "
                f"the table ends at {held.get(first)}. The checkpoint was put back to an earlier state. {_NEW}"
            )
        return False
    # A partition that only `end` has enters there, and is read from the next batch on.
    begins = {p: batch.start.get(p, batch.end.get(p, at)) for p, at in held.items()}
    behind = {p for p, at in held.items() if begins[p] < at}
    if newest.query_id != batch.query_id:
        # The first batch of an older run was planned before the table went on, and ends before it.
        behind |= {p for p, at in held.items() if batch.end.get(p, at) < at}
    if behind:
        first = min(behind)
        raise RowsWouldRepeat(
            f"{batch} stands before what query {newest.query_id} wrote to the table since, in {len(behind)}"
            f" partitions: {first} would be read from {begins[first]} to {batch.end.get(first)}, and the table ends at"
            f" {held[first]}. {_NEW}"
        )
    allowed = chosen or {}
    past = {p for p, at in held.items() if begins[p] > at and begins[p] != allowed.get(p)}
    if may_lose:
        past &= batch.start.keys()
    if past:
        first = min(past)
        raise RowsWouldBeMissing(
            f"{batch} begins past the end of the group's rows in the table, in {len(past)} partitions: {first} would be"
            f" read from {begins[first]}, and the table ends at {held[first]}. Was the table put back to an earlier"
            f" version? {_NEW}"
        )
    return True


def trusted(state: SinkState, where: str, consumer_group: str, chosen: str | None, *, goes_on: bool) -> SinkState:
    """Return what may be gone by of `state`, the table's at `where`; raises UnknownRows where the user has to say.

    `chosen` is what the user said where to begin. `goes_on` for a checkpoint that has batches in the table: rows that
    others pick and delete are not its business, as it does not go by the table.
    """
    taken = state.taken_out
    if taken is None or chosen == TARGET or (goes_on and not taken.everything):
        return replace(state, taken_out=None)
    if says_offsets(chosen) and not goes_on:
        return SinkState(None, state.sequence, is_whole=False)
    raise UnknownRows(
        f"version {taken.version} of {where} ({taken.operation}) took rows out after the last commit of group"
        f" {consumer_group}, so nobody can say which of its rows are left. Start with a new checkpoint and say where it"
        " begins: --starting-offsets target goes on after that commit and leaves out what was taken out;"
        ' --starting-offsets \'{"default": "earliest"}\', or offsets of partitions, reads again from there. Or put the'
        " table back, with RESTORE ... TO VERSION AS OF and a version"
    )
