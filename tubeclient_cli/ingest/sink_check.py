"""Whether a batch goes on exactly where the group's rows in the table end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.settings import GROUP, TARGET, says_offsets
from tubeclient_cli.ingest.sink_history import SinkState

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
    "trusted",
]

_NEW: Final = "Start with a new checkpoint: it goes on where the table ends"
BEGIN_ANEW: Final = (
    "Where a topic was deleted and made anew, or its brokers lost their newest messages, give a new checkpoint "
    "--begin-anew TOPIC as well: it begins the topic by --starting-offsets, and else at earliest, wherever the rows end"
)
"""The way out where the brokers have no more what the target's rows end at."""
_OF_A_COPY: Final = (
    "Start with a new checkpoint and say where it begins: --starting-offsets with offsets of partitions as JSON, such "
    "as the endOffsets in the userMetadata of the version that was copied, or group where the group has read nothing "
    "since then"
)


class RowsWouldRepeat(ConfigurationError):
    """The batch begins before the end of the group's rows: some would be in the table twice."""


class RowsWouldBeMissing(ConfigurationError):
    """The batch begins past the end of the group's rows: what lies between would never be in the table."""


class UnknownRows(ConfigurationError):
    """Nobody can say which rows of the group the table has: its history is cut, or somebody took rows out."""


class OtherCluster(ConfigurationError):
    """The group's rows in the table come from a cluster that, by its masters, is another one."""


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
    known: Mapping[PartitionKey, int] | None = None,
    *,
    skips: bool = False,
    may_lose: bool = False,
) -> bool:
    """Whether the batch has to be written: False if the table has it already.

    `known` is where this run would begin a new checkpoint, and `skips` says that the user wants that to count where it
    is past the table's end; `may_lose` says that partitions may enter past the end, as the brokers no longer have what
    lies between (failOnDataLoss=false). Raises RowsWouldRepeat or RowsWouldBeMissing for a batch that does not begin
    where the table ends, UnknownRows for one of an old checkpoint and a table that is a copy. Such a batch comes of an
    old checkpoint that is taken up again after a newer one went on from the table, of one that was put back to an
    earlier state, of a run that was thought dead, and of a table that is another one or was put back.
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
            f" read from {begins[first]}, and the table ends at {held[first]}. Was the table put back to an earlier"
            f" version? {_NEW}"
        )
    if batch.batch_id > 0:
        # What the query has begun to read is in its records, unless those are in another table.
        unheld = batch.start.keys() & batch.end.keys() - held.keys()
        if unheld:
            first = min(unheld)
            raise RowsWouldBeMissing(
                f"{batch} goes on at {batch.start[first]} in {first}, and the table has nothing of the group's rows"
                f" there, nor in {len(unheld) - 1} other partitions that it goes on in. Is it another table, or one"
                " that was put back? Start with a new checkpoint: it reads what the table does not have"
            )
    return True


def _check_first(state: SinkState, batch: Batch, known: Mapping[PartitionKey, int], *, may_lose: bool) -> None:
    """See `check_batch`; for a table that says nothing of where the group's rows end."""
    if batch.batch_id > 0 and state.is_copy:
        raise UnknownRows(
            f"{batch} is not its first, and the table is a copy of another one, so nobody can say how far the group's "
            f"rows go in it. {_OF_A_COPY}"
        )
    if batch.batch_id > 0 and state.is_whole:
        raise RowsWouldBeMissing(
            f"{batch} is not its first, and the table has none of the group's rows. Is it another table, or "
            "one that was put back? Start with a new checkpoint: it reads what the table does not have"
        )
    if batch.batch_id > 0 or may_lose:
        return
    past = {p for p, at in known.items() if batch.start.get(p, batch.end.get(p, at)) > at}
    if past:
        first = min(past)
        raise RowsWouldBeMissing(
            f"{batch} begins past where this run is to begin, in {len(past)} partitions: {first} would be read from"
            f" {batch.start.get(first, batch.end.get(first))}, and not from {known[first]}, and the table has none of"
            " the group's rows. Start with a new checkpoint"
        )


def check_beginning(
    state: SinkState, where: str, consumer_group: str, chosen: str | None, *, in_offsets_table: bool
) -> None:
    """Raise UnknownRows where the group may have rows in the table at `where`, nobody can say how far they go, and
    `chosen`, what the user said where to begin, does not either.

    The offsets table, if it has the group, follows the table's rows and knows in the history's stead. Not so with a
    copy: the group may have gone on in the first table since, and the copy does not have those rows.
    """
    if state.record is not None or state.is_whole or says_offsets(chosen) or chosen == GROUP:
        return
    if state.is_copy:
        raise UnknownRows(
            f"{where} is a copy of another table, so nobody can say how far the rows of group {consumer_group} go in "
            f"it. {_OF_A_COPY}"
        )
    if not (in_offsets_table and chosen in (None, TARGET)):
        raise UnknownRows(
            f"{where} has rows of group {consumer_group} perhaps, and its history does not say how far they go: Delta "
            "removes it after delta.logRetentionDuration. Say where to start with --starting-offsets: offsets of "
            "partitions as JSON, or group"
        )


def check_cluster(state: SinkState, where: str, masters: Collection[str], former: Collection[str] = ()) -> None:
    """Raise OtherCluster where the group's rows in the table at `where` come from a cluster that shares no master with
    this run's: equal names of topics and partitions stand for other messages there.

    Masters may come and go, as each commit names those of its run. `former` are those that the user says the cluster
    had before.
    """
    record = state.record
    if record is None or not record.masters or not set(record.masters).isdisjoint({*masters, *former}):
        return
    before = ",".join(record.masters)
    raise OtherCluster(
        f"the rows of group {record.consumer_group} in {where} come from the cluster with the masters {before}, and "
        f"masterServers names {','.join(masters)}. Another cluster's topics are other topics, whatever their names: "
        "read them as a group of another name, or into another table, without the first cluster's offsets table. If "
        f"it is the same cluster, and its masters moved or got other names, say so with --former-masters {before}"
    )


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
