"""Checks that a batch begins exactly where the group's rows in the table end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.settings import GROUP, TARGET, says_offsets
from tubeclient_cli.ingest.sink_history import SinkState, TakenOut

__all__ = [
    "BEGIN_ANEW",
    "Batch",
    "OtherCluster",
    "RowsWouldBeMissing",
    "RowsWouldRepeat",
    "UnknownRows",
    "check_batch",
    "check_beginning",
    "check_cluster",
    "check_going_on",
    "trusted",
    "unknown_rows",
]

_NEW: Final = "Start with a new checkpoint: it continues where the table ends"
_ALL_MISSING: Final = (
    "Start with a new checkpoint and --starting-offsets earliest: it reads what the table does not have, wherever the "
    "offsets table has the group"
)
BEGIN_ANEW: Final = (
    "If its brokers lost their newest messages, go on with the group's last checkpoint and --option "
    "failOnDataLoss=false. If a topic was deleted and created again, give --begin-anew TOPIC with a new checkpoint: it "
    "begins the topic by --starting-offsets, or at earliest, wherever the rows end"
)
"""Advice for when the brokers no longer have the offsets at which the target's rows end."""
_OF_A_COPY: Final = (
    "Start with a new checkpoint and say where it begins: --starting-offsets with offsets of partitions as JSON, such "
    "as the endOffsets in the userMetadata of the version that was copied, or group if the group has read nothing "
    "since then"
)


class RowsWouldRepeat(ConfigurationError):
    """The batch begins before the end of the group's rows: the table would have some rows twice."""

    condition = "ROWS_WOULD_REPEAT"


class RowsWouldBeMissing(ConfigurationError):
    """The batch begins past the end of the group's rows: the table would never have the rows between."""

    condition = "ROWS_WOULD_BE_MISSING"


class UnknownRows(ConfigurationError):
    """The table's rows of the group are unknown: its history is cut, or others removed rows."""

    condition = "TARGET_ROWS_UNKNOWN"


class OtherCluster(ConfigurationError):
    """The group's rows in the table come from a cluster with other masters."""

    condition = "OTHER_CLUSTER"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch to write."""

    query_id: str
    """The id of Spark's checkpoint."""
    batch_id: int
    start: Mapping[PartitionKey, int]
    end: Mapping[PartitionKey, int]

    def __str__(self) -> str:
        return f"batch {self.batch_id} of this checkpoint (query {self.query_id})"


def check_batch(
    state: SinkState,
    batch: Batch,
    known: Mapping[PartitionKey, int] | None = None,
    *,
    skips: bool = False,
    may_lose: bool = False,
) -> bool:
    """Whether to write the batch: False if the table has it already.

    `known` is where this run would begin a new checkpoint. `skips`: the user wants `known` to count even past the
    table's end. `may_lose` (failOnDataLoss=false): partitions may enter past the end, because the brokers no longer
    have what lies between. Raises RowsWouldRepeat or RowsWouldBeMissing if the batch does not begin where the table
    ends, UnknownRows for an old checkpoint with a copied table. Such batches come from an outdated checkpoint, a
    restored checkpoint, a run that was thought dead, or a table that was replaced or restored.
    """
    newest = state.record
    if newest is None:
        _check_first(state, batch, known or {}, may_lose=may_lose)
        return True
    held = newest.ends
    if newest.query_id == batch.query_id and batch.batch_id <= newest.batch_id:
        beyond = [p for p, at in batch.end.items() if at > held.get(p, -1)]
        if beyond:
            first = min(beyond)
            raise RowsWouldRepeat(
                f"the table already has another {batch}: this one would end at {batch.end[first]} in {first}, and "
                f"the table ends at {held.get(first)}. The checkpoint was restored to an earlier state. {_NEW}"
            )
        return False
    # A partition that only `end` has enters there; the next batch reads it.
    begins = {p: batch.start.get(p, batch.end.get(p, at)) for p, at in held.items()}
    behind = {p for p, at in held.items() if begins[p] < at}
    if newest.query_id != batch.query_id:
        # An older run may have planned its first batch before the table moved on; that batch ends too early.
        behind |= {p for p, at in held.items() if batch.end.get(p, at) < at}
    if behind:
        first = min(behind)
        raise RowsWouldRepeat(
            f"{batch} begins before what query {newest.query_id} wrote to the table since, in {len(behind)}"
            f" partitions: {first} would be read from {begins[first]} to {batch.end.get(first)}, and the table ends at"
            f" {held[first]}. {_NEW}{f'. {BEGIN_ANEW}' if begins[first] == held[first] else ''}"
        )
    allowed = (known or {}) if skips else {}
    past = {p for p, at in held.items() if begins[p] > at and begins[p] != allowed.get(p)}
    if may_lose:
        past &= batch.start.keys()
    if past:
        first = min(past)
        raise RowsWouldBeMissing(
            f"{batch} begins past the end of the group's rows in the table, in {len(past)} partitions: {first} would be"
            f" read from {begins[first]}, and the table ends at {held[first]}. Was the table restored to an earlier"
            f" version? {_NEW}"
        )
    if batch.batch_id > 0:
        # The query's records have what it has begun to read, unless they are in another table.
        unheld = batch.start.keys() & batch.end.keys() - held.keys()
        if unheld:
            first = min(unheld)
            raise RowsWouldBeMissing(
                f"{batch} continues at {batch.start[first]} in {first}, and the table has no rows of the group there,"
                f" nor in {len(unheld) - 1} other partitions of the batch. Is it another table, or was it restored?"
                f" {_ALL_MISSING}"
            )
    return True


def _check_first(state: SinkState, batch: Batch, known: Mapping[PartitionKey, int], *, may_lose: bool) -> None:
    """See `check_batch`; for a table that does not say where the group's rows end."""
    if batch.batch_id > 0 and state.is_copy:
        raise UnknownRows(
            f"{batch} is not its first, and the table is a copy of another table, so the end of the group's rows in it "
            f"is unknown. {_OF_A_COPY}"
        )
    if batch.batch_id > 0 and state.is_whole:
        raise RowsWouldBeMissing(
            f"{batch} is not its first, and the table has none of the group's rows. Is it another table, or was it "
            f"restored? {_ALL_MISSING}"
        )
    if batch.batch_id > 0 or may_lose:
        return
    past = {p for p, at in known.items() if batch.start.get(p, batch.end.get(p, at)) > at}
    if past:
        first = min(past)
        raise RowsWouldBeMissing(
            f"{batch} begins past this run's start in {len(past)} partitions: {first} would be read from"
            f" {batch.start.get(first, batch.end.get(first))} instead of {known[first]}, and the table has none of"
            " the group's rows. Start with a new checkpoint"
        )


def check_beginning(
    state: SinkState, where: str, consumer_group: str, chosen: str | None, *, in_offsets_table: bool
) -> None:
    """Raise UnknownRows if the group may have rows in the table at `where`, their end is unknown, and the user's
    `chosen` starting offsets do not say either.

    The offsets table follows the table's rows, so it may replace the history. But not for a copy: the group may have
    continued in the first table, and the copy lacks those rows.
    """
    if state.record is not None or state.is_whole or says_offsets(chosen) or chosen == GROUP:
        return
    if state.is_copy:
        raise UnknownRows(
            f"{where} is a copy of another table, so the end of the rows of group {consumer_group} is unknown in "
            f"it. {_OF_A_COPY}"
        )
    if not (in_offsets_table and chosen in (None, TARGET)):
        raise UnknownRows(
            f"{where} may have rows of group {consumer_group}, and its history does not say where they end: Delta "
            "removes it after delta.logRetentionDuration. Say where to start with --starting-offsets: offsets of "
            "partitions as JSON, or group"
        )


def check_going_on(
    state: SinkState,
    where: str,
    consumer_group: str,
    planned: Mapping[PartitionKey, int],
    in_table: Mapping[PartitionKey, int],
) -> None:
    """Raise UnknownRows if the history does not say where the group's rows in the table at `where` end, and the
    checkpoint, whose last batch ends at `planned`, is behind the offsets table's position `in_table`.

    That position follows the rows, so the table has some that the checkpoint would read again. Call it before the
    query starts, as the planner sets the offsets table back to its checkpoint.
    """
    if state.record is not None or state.is_whole or state.is_copy:
        return
    ahead = {p for p, at in in_table.items() if p in planned and at > planned[p]}
    if ahead:
        first = min(ahead)
        raise UnknownRows(
            f"this checkpoint seems outdated: its last batch ends at {planned[first]} in {first}, and the offsets table"
            f" has group {consumer_group} at {in_table[first]} there ({len(ahead)} partitions are like it). The history"
            f" of {where} does not say where the group's rows end: Delta removes it after delta.logRetentionDuration."
            " Start with a new checkpoint: it continues where the offsets table has the group, which after a kill may"
            " be one batch before the end of the rows. If the group's rows in the offsets table are another target's,"
            " set them to where this one's end, with tubeclient offsets reset"
        )


def check_cluster(state: SinkState, where: str, masters: Collection[str], former: Collection[str] = ()) -> None:
    """Raise OtherCluster if the group's rows in the table at `where` come from a cluster that shares no master with
    this run: there, equal names of topics and partitions mean other messages.

    Masters may come and go, because each commit names those of its run. `former` are the cluster's earlier masters,
    given by the user.
    """
    record = state.record
    if record is None or not record.masters or not set(record.masters).isdisjoint({*masters, *former}):
        return
    before = ",".join(record.masters)
    raise OtherCluster(
        f"the rows of group {record.consumer_group} in {where} come from the cluster with the masters {before}, and "
        f"masterServers names {','.join(masters)}. Topics of another cluster are other topics, even with equal names: "
        "read them with another group name, or into another table without the first cluster's offsets table. If it is "
        f"the same cluster and its masters moved or were renamed, add --former-masters {before}"
    )


def trusted(state: SinkState, where: str, consumer_group: str, chosen: str | None, *, goes_on: bool) -> SinkState:
    """Return the part of `state`, the table's at `where`, that this run can rely on. Raises UnknownRows if the user
    must choose.

    `chosen` are the user's starting offsets. `goes_on` for a checkpoint that has batches in the table: it does not
    start from the table, so rows that others deleted do not matter to it.
    """
    taken = state.taken_out
    if taken is None or chosen == TARGET or (goes_on and not taken.everything):
        return replace(state, taken_out=None)
    if says_offsets(chosen) and not goes_on:
        return SinkState(None, state.sequence, is_whole=False)
    raise unknown_rows(taken, where, consumer_group)


def unknown_rows(taken: TakenOut, where: str, consumer_group: str) -> UnknownRows:
    """The error for a commit after which it is unknown which rows of the group the table at `where` has."""
    undo = (
        f"RESTORE TABLE delta.`{where}` TO VERSION AS OF {taken.version - 1}"
        if taken.version
        else "remove the table, and give --starting-offsets earliest"
    )
    return UnknownRows(
        f"version {taken.version} of {where} ({taken.operation}) {taken.how.value}, so it is unknown which rows of"
        f" group {consumer_group} are there. To undo that commit and what came after it, {undo}. Or take the table"
        " as it is, with --starting-offsets target: what it lacks is not read again. In both cases start with a new"
        " checkpoint"
    )
