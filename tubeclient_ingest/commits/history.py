"""What the history of the job's table says about one group: where its rows end, what was done to them since, and which
bad records count. Pure.

Each commit of the job says where the group's rows end. Others write to the table as well. Maintenance leaves the rows
unchanged. RESTORE returns to the state of an earlier version. After a delete or an overwrite it is unknown which rows
are left.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from spark_source.offsets.offsets import Offsets
from spark_source.options.table_uris import text_in_sql
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.commits.record import SinkRecord, most, not_undone

__all__ = ["BAD", "RETRIED", "UNDONE", "Commit", "SinkState", "TakenOut", "committed", "state_of"]

_OF_THE_JOB: Final = ("WRITE", "MERGE")
"""The operations of the job's own commits."""


class Commit(NamedTuple):
    """One commit of the table, from its history."""

    version: int
    operation: str
    parameters: Mapping[str, str | None]
    metrics: Mapping[str, str | None]
    record: SinkRecord | None
    """The job's record in it; None for a commit of others. Delta's own upkeep after a MERGE repeats its text."""
    removes: bool = True
    """Whether it may have removed data: False if it is known that no file with data went."""
    written: datetime | None = None
    """When; None if that is unknown."""

    @classmethod
    def of(cls, entry: Mapping[str, Any], where: str) -> Commit:
        """From an entry of the history of the table at `where`, by Delta's names. Raises ConfigurationError as
        SinkRecord.parse."""
        version, operation = int(entry["version"]), entry.get("operation") or ""
        try:
            record = SinkRecord.parse(entry.get("userMetadata")) if operation in _OF_THE_JOB else None
        except ConfigurationError as error:
            raise ConfigurationError(f"version {version} of {where}: {error}", condition=error.condition) from None
        return cls(
            version,
            operation,
            entry.get("operationParameters") or {},
            entry.get("operationMetrics") or {},
            record,
            # Not by its name: this is what Delta saw of the commit's files.
            removes=not entry.get("isBlindAppend"),
            written=entry["timestamp"].astimezone(UTC),
        )


class Harm(Enum):
    """What a commit did, so that the group's last valid commit no longer tells which rows are there."""

    REMOVED = "removed rows after the group's last commit"
    BESIDE = (
        "was written at the same time as another run of the group, because the table forgets transactions "
        "(delta.setTransactionRetentionDuration)"
    )
    MOVED = "was meant for the table that was here before this one"


class TakenOut(NamedTuple):
    """A commit after which it is unknown which of the group's rows are in the table."""

    version: int
    operation: str
    everything: bool
    """Whether it may concern all rows; False if a predicate selected them."""
    how: Harm = Harm.REMOVED


@dataclass(frozen=True, slots=True)
class SinkState:
    """What is known about the group's rows in the table."""

    record: SinkRecord | None = None
    """The group's last valid commit; None if the table has none."""
    sequence: int = 0
    """The highest number of the group's commits, including those that RESTORE undid."""
    taken_out: TakenOut | None = None
    is_whole: bool = True
    """Whether the history is complete. If not, and `record` is None, the group may have written before."""
    is_copy: bool = False
    """Whether rows came from another table, whose history is not here."""
    undone: SinkRecord | None = None
    """The group's newest commit, if RESTORE undid it."""
    run_of: Mapping[int, str] = field(default_factory=dict, compare=False)
    """The runs of the group's commits that the history has, by their numbers."""
    rows: int | None = field(default=None, compare=False)
    """How many rows the commit of `record` added; None if the history does not say."""
    written: datetime | None = field(default=None, compare=False)
    """When the commit of `record` was written."""
    version: int | None = field(default=None, compare=False)
    """The table's version of which this is known; None if there is no table."""
    table_id: str | None = field(default=None, compare=False)
    """The id of the table of which this is known; None if there is none."""
    former_ids: tuple[str, ...] = field(default=(), compare=False)
    """Ids that the table had before, where no record says it."""
    undone_numbers: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """As SinkRecord.undone, where no record says it."""
    resets: Mapping[str, int] = field(default_factory=dict, compare=False)
    """As SinkRecord has it, the highest that any of the group's commits says, or the user since."""
    only_others_wrote: bool = field(default=False, compare=False)
    """Whether there are rows of no group's job, and no commit of the group but those that RESTORE undid."""

    @property
    def is_put_back(self) -> bool:
        """Whether runs have tried numbers that the next one jumps over, and no commit says that yet: the table is a
        copy of earlier."""
        return self.record is not None and bool(self.undone_numbers)

    @property
    def ends(self) -> Offsets:
        """Where the group's rows end; {} if unknown."""
        return self.record.ends if self.record is not None else Offsets({})

    def numbered(self, record: SinkRecord) -> SinkRecord:
        """`record` as the group's next commit, on top of this state."""
        before = self.record
        undone, known_from = self.undone_numbers, 1
        if before is not None:
            undone, known_from = before.undone, before.known_from
        elif not self.is_whole:
            known_from = self.sequence + 1
        last = max(before.sequence if before is not None else 0, known_from - 1)
        if self.sequence > last:
            undone = (*undone, (last + 1, self.sequence))
        numbered = replace(record, sequence=self.sequence + 1, undone=undone, known_from=known_from)
        return replace(
            numbered,
            based_on=self.version,
            table_id=self.table_id,
            former_ids=self.table_ids[1:],
            resets=record.resets if before is None else most((record.resets, before.resets)),
        )

    @property
    def table_ids(self) -> tuple[str, ...]:
        """The table's id, and those that it had when the group's commits were written; () without a table."""
        before = self.record
        former = (before.table_id, *before.former_ids) if before is not None else self.former_ids
        return tuple(dict.fromkeys(table_id for table_id in (self.table_id, *former) if table_id is not None))

    def without_topics(self, topics: Collection[str]) -> SinkState:
        """The state for a run that begins `topics` anew. What others did to the rows is no matter if these are all."""
        record = self.record and replace(self.record, ends=self.record.ends.without_topics(topics))
        taken_out = self.taken_out if record and record.ends else None
        return replace(self, record=record, taken_out=taken_out, resets=once_more(self.resets, topics))

    def stale(self, resets: Mapping[str, int]) -> list[str]:
        """The topics that were reset, by `resets`, since the group's last commit, of which it says where rows end."""
        record = self.record
        there = {key.topic for key in record.ends} if record is not None else set()
        own = record.resets if record is not None else {}
        return sorted(topic for topic in there if resets.get(topic, 0) > own.get(topic, 0))


def once_more(resets: Mapping[str, int], topics: Iterable[str]) -> dict[str, int]:
    """`resets` after one of these topics."""
    return {**resets, **{topic: resets.get(topic, 0) + 1 for topic in topics}}


class _Effect(Enum):
    KEEPS = "leaves all rows in the table"
    SOME = "removes the rows that match a predicate"
    ALL = "may remove any row"
    RESTORES = "restores an earlier version of the table"
    FOREIGN = "adds rows from another table, without their offsets"


def state_of(commits: Sequence[Commit], consumer_group: str, table_id: str | None = None) -> SinkState:
    """What `commits`, the last ones of the table `table_id`, newest first, say about the group."""
    restored_to: int | None = None
    taken: TakenOut | None = None
    sequence = 0
    newest: SinkRecord | None = None
    first_undone: int | None = None
    undone_before: tuple[tuple[int, int], ...] = ()
    of_others = False
    own = [
        commit.record
        for commit in commits
        if commit.record is not None and commit.record.consumer_group == consumer_group
    ]
    run_of = {record.sequence: record.run_id for record in own}

    def is_in_effect(commit: Commit) -> bool:
        return restored_to is None or commit.version <= restored_to

    def found(
        commit: Commit | None = None, *, is_whole: bool, is_copy: bool = False, rows: str | None = None
    ) -> SinkState:
        record = commit and commit.record
        is_unknown = record is None and not is_whole
        return SinkState(
            record,
            sequence,
            # Rows removed before the group's first commit do not matter.
            taken if record is not None else None,
            is_whole,
            is_copy,
            newest,
            run_of,
            int(rows) if rows is not None else None,
            commit and commit.written,
            version=commits[0].version if commits else None,
            table_id=table_id,
            undone_numbers=() if not is_unknown or first_undone is None else (*undone_before, (first_undone, sequence)),
            resets=most(past.resets for past in own),
            only_others_wrote=record is None and of_others,
        )

    for index, commit in enumerate(commits):
        record = commit.record if commit.record and commit.record.consumer_group == consumer_group else None
        if record is not None:
            sequence = max(sequence, record.sequence)
        if not is_in_effect(commit):
            if record is not None:  # the oldest one knows what was undone before it
                newest, first_undone, undone_before = newest or record, record.sequence, record.undone
            elif _effect(commit) is _Effect.RESTORES:
                undone_before = ()
            continue
        if record is not None:
            base = -1 if record.based_on is None else record.based_on
            # The record does not include what came between the job's read of the table and its commit.
            for earlier in (earlier for earlier in commits[index + 1 :] if earlier.version > base):
                beside = earlier.record is not None and earlier.record.consumer_group == consumer_group
                taken = _worse(taken, _harm(commit, Harm.BESIDE) if beside else _taken(earlier))
            if None not in (record.table_id, table_id) and record.table_id != table_id:
                taken = _worse(taken, _harm(commit, Harm.MOVED))
            # A MERGE also writes rows anew that it leaves as they are.
            rows = commit.metrics.get("numSourceRows", commit.metrics.get("numOutputRows"))
            return found(commit, is_whole=commits[-1].version <= base + 1, rows=rows)
        effect, of_others = _effect(commit), of_others or _adds_rows(commit)
        if effect is _Effect.RESTORES and (version := _restored(commit)) is not None:
            restored_to = version
        elif effect is _Effect.FOREIGN:
            return found(is_whole=False, is_copy=True)
        else:
            taken = _worse(taken, _taken(commit))
    return found(is_whole=not commits or commits[-1].version == 0)


def _harm(commit: Commit, how: Harm) -> TakenOut:
    return TakenOut(commit.version, commit.operation, everything=True, how=how)


def _taken(commit: Commit) -> TakenOut | None:
    effect = _effect(commit)
    everything = effect in (_Effect.ALL, _Effect.RESTORES)
    return TakenOut(commit.version, commit.operation, everything) if everything or effect is _Effect.SOME else None


def _worse(*found: TakenOut | None) -> TakenOut | None:
    """The one that removed most; among equals the newest."""
    return max(
        (taken for taken in found if taken is not None),
        key=lambda taken: (taken.everything, taken.version),
        default=None,
    )


def _adds_rows(commit: Commit) -> bool:
    """Whether it has rows of no group's job."""
    name = commit.operation.upper()
    adds = name in ("WRITE", "MERGE", "STREAMING UPDATE", "COPY INTO") or name.endswith(" AS SELECT")
    return adds and commit.record is None and commit.metrics.get("numOutputRows") != "0"


_DELETED_ROWS: Final = ("numTargetRowsDeleted", "num_target_rows_deleted")


def _effect(commit: Commit) -> _Effect:
    """What a commit did: by its files where that is enough. Names tell apart what removes files that hold data."""
    name = commit.operation.upper()
    if name == "RESTORE":
        return _Effect.RESTORES
    if name in ("CLONE", "CONVERT", "CHERRY-PICK"):
        return _Effect.FOREIGN
    mode = str(commit.parameters.get("mode") or commit.parameters.get("outputMode")).lower()
    if not commit.removes or name in ("CREATE TABLE", "UPDATE") or mode == "append":
        return _Effect.KEEPS
    if name == "MERGE":
        deleted = next((commit.metrics[metric] for metric in _DELETED_ROWS if metric in commit.metrics), None)
        return _Effect.KEEPS if deleted == "0" else _Effect.SOME
    dynamic = "true" in str(commit.parameters.get("isDynamicPartitionOverwrite")).lower()
    return _Effect.SOME if dynamic or _has_predicate(commit) else _Effect.ALL


def _has_predicate(commit: Commit) -> bool:
    """Whether a predicate selects the removed rows; `true` selects all."""
    text = commit.parameters.get("predicate")
    return text is not None and text.strip().lower() not in ("", "[]", '["true"]', "true")


def _restored(commit: Commit) -> int | None:
    """The version that RESTORE returned to; None if it was given a time, because the history does not name the version
    then."""
    text = commit.parameters.get("version")
    if text is None:
        return None
    try:
        return int(json.loads(text))
    except ValueError:
        return None


BAD: Final = "bad"
"""State of a record that the target does not have."""
RETRIED: Final = "retried"
"""State of a record that could be parsed later: the target has it."""
UNDONE: Final = "undone"
"""State of a row whose commit the target does not have: RESTORE took it out, or the run died or lost before it. The job
reads the record again, or has."""


def committed(state: SinkState, there: Collection[tuple[int, str]]) -> str:
    """SQL for rows of a group and a target: whether the target, which says `state` of the group, has their commit:
    one of these numbers and runs, or one that is confirmed (`isConfirmed`), and RESTORE did not take it out."""
    record = state.record
    committed_numbers = record.committed_numbers if record is not None else ()
    if record is None and not state.is_whole:
        committed_numbers = not_undone(state.undone_numbers, state.sequence)
    within = " OR ".join(f"`sequence` BETWEEN {first} AND {last}" for first, last in committed_numbers)
    # A list, as Spark's parser takes no expression of thousands of parts in one another.
    runs = ", ".join(text_in_sql(f"{number} {run}") for number, run in sorted(there))
    is_there = f"CAST(`sequence` AS STRING) || ' ' || `runId` IN ({runs})" if there else "false"
    return f"(({within or 'false'}) AND (`isConfirmed` OR {is_there}))"
