"""Whether a run may rely on what the target says of its group, and where it begins: where those rows end. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final

from spark_source.offsets.offsets import Offsets
from spark_source.options.parsers import moment_ms
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.printable import counted
from tubeclient_ingest.commits.history import SinkState, TakenOut
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.settings.ingest_settings import TARGET
from tubeclient_ingest.settings.table_by import REST

_SAY_WHERE: Final = (
    "Say once where to start: reset the offsets of each topic (--reset-offsets TOPIC, or Ingest.reset_offsets) with "
    "starting-offsets set to the partitions' offsets as JSON"
)
_OF_COPY: Final = (
    ", such as the endOffsets in the userMetadata of the version that was copied; or to earliest, if it has no rows "
    "of the group"
)
_OF_GROUP: Final = (
    "; or to group, if the table has all rows before the group's position in the offsets table and none after it "
    "(that position may be one round behind if the last run was killed)"
)
_WHERE_ALL_END: Final = (
    "with starting-offsets set to the offsets, as JSON, at which all tables' rows end, or to group, if that is the "
    "group's position in the offsets table"
)
OF_COUNTS: Final = (
    "Set starting-offsets to target, once: the other tables say where their own rows end, and only counts are "
    "repeated. If one of them does not, reset the offsets of each topic (--reset-offsets TOPIC, or "
    f"Ingest.reset_offsets) {_WHERE_ALL_END}"
)
"""Advice for a counts table that does not say where the group's rows end."""
UNDO: Final = "Restore the newest version from before the RESTORE"
_TARGET: Final = "starting-offsets target, once"


def by_target(name: str) -> str:
    """The settings with which a user takes one table of many as it is."""
    return f"{_TARGET}, {'without --stream' if name == REST else f'with --stream {name} and no other'}"


def of_stream(name: str) -> str:
    """Advice for a stream's table that does not say where its rows end: the counts table does."""
    return (
        f"Use {by_target(name)}, if it has all rows up to the offsets in the counts table and none after them: "
        "nobody restored it or removed rows from it"
    )


REMOVE: Final = "Or remove the table, and the job refills it with what the brokers still hold"


def of_put_back(name: str) -> str:
    """Advice for such a table, if it was put back."""
    return f"{UNDO}. Or, if the missing rows should not be read again, use {by_target(name)}"


class UnknownRows(ConfigurationError):
    """The table's rows of the group are unknown: its history is cut, or others removed rows."""

    condition = "TARGET_ROWS_UNKNOWN"


def ahead_of_counts(where: str, consumer_group: str, own: int, counted: int) -> UnknownRows:
    """The error of a stream's table without a history, of which the counts table does not know all commits."""
    return UnknownRows(
        f"{where} has commit {own} of group {consumer_group}, but the counts table knows the group's commits only up "
        f"to {counted}, and the table's history does not say where its rows end. Remove the table, and the job "
        "refills it with what the brokers still hold. Or, if it has no rows from there on, such as after a retry of "
        "bad records, and no other stream is left behind, reset the offsets of each topic, once, with "
        "starting-offsets group"
    )


COME_AGAIN: Final = f"With target they would be written again. Reset the offsets of each topic, once, {_WHERE_ALL_END}"
"""Advice for a table of many where the counts table says nothing either."""


def rows_come_again(where: str, consumer_group: str) -> UnknownRows:
    """The error of a group of which neither the counts table nor this table has the history."""
    return UnknownRows(
        f"{where} may have rows of group {consumer_group}, but its history does not say where they end: "
        f"{COME_AGAIN[0].lower()}{COME_AGAIN[1:]}"
    )


def of_before_resets(where: str, consumer_group: str, topics: Collection[str], advice: str) -> UnknownRows:
    """The error of a table whose rows end, in these topics, at offsets of before a reset."""
    return UnknownRows(
        f"the rows of group {consumer_group} in {where} end at offsets from before {', '.join(topics)} was reset or "
        f"lost messages; other messages may have these offsets now. {advice}"
    )


class OtherCluster(ConfigurationError):
    """The group's rows in the table come from a cluster with other masters."""

    condition = "OTHER_CLUSTER"


class OvertakenRun(ConfigurationError):
    """Another run of the group wrote to the table during this run's round."""

    condition = "TARGET_TAKEN_OVER"


class TableChanged(Exception):
    """A table is not as this run left it: the run begins once more, where the table's rows end now."""


def overtaken(where: str, other: SinkRecord, own: str) -> OvertakenRun:
    """The error of a run whose place `other` has taken; `own` says where it was itself."""
    return OvertakenRun(
        f"another run of group {other.consumer_group} wrote {named(other)} to {where} {own}. Only one job may write "
        "a group's rows: this one ends, and the other continues. To keep this one instead, stop the other one and "
        "restart this one"
    )


def named(record: SinkRecord) -> str:
    """A commit, for errors."""
    return f"commit {record.sequence} of run {record.run_id}"


def check_beginning(
    state: SinkState, where: str, consumer_group: str, topics: Collection[str], advice: str | None = None
) -> None:
    """Raise UnknownRows, with `advice`, if the group may have rows of one of `topics` in the table at `where`, and
    their end is unknown. No setting but reset-offsets says it: others may have stayed since the first run.
    """
    record = state.record
    if record is None and state.is_whole:
        return
    if record is not None and (record.known_from == 1 or _topics(record.ends).issuperset(topics)):
        return
    if state.is_copy:
        raise UnknownRows(
            f"{where} is a copy of another table, or others wrote its first rows, so it is unknown where its rows of "
            f"group {consumer_group} end. {advice or _SAY_WHERE + _OF_COPY + _OF_GROUP}. Bad records that were not "
            "retried yet stay with the original table"
        )
    raise UnknownRows(
        f"{where} may have rows of group {consumer_group}, but its history does not say where they end: Delta "
        "removes history after delta.logRetentionDuration, and Iceberg's snapshots expire. "
        f"{advice or _SAY_WHERE + _OF_GROUP}"
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
        f"the rows of group {record.consumer_group} in {where} come from the cluster with the masters {before}, but "
        f"masterServers names {','.join(masters)}. Topics of another cluster are different topics, even if they have "
        "the same names: read them with another group name, or into another table without the first cluster's "
        "offsets table. If this is the same cluster and its masters moved or were renamed, set former-masters to "
        f"{before}"
    )


def trusted(state: SinkState, where: str, consumer_group: str, chosen: str | None, target: str = _TARGET) -> SinkState:
    """The part of `state`, the table's at `where`, that this run can rely on; `chosen` are the user's starting offsets.
    Raises UnknownRows if the user must choose. Rows that others removed by a predicate were meant to go: where the
    group's rows end stays known."""
    taken = state.taken_out
    if taken is None or chosen == TARGET or not taken.everything:
        return replace(state, taken_out=None)
    raise unknown_rows(taken, where, consumer_group, target)


def unknown_rows(taken: TakenOut, where: str, consumer_group: str, target: str = _TARGET) -> UnknownRows:
    """The error for a commit after which it is unknown which rows of the group the table at `where` has; `target` are
    the settings with which the user takes it as it is."""
    undo = "remove the table, and set starting-offsets to earliest"
    if taken.operation.islower():  # Iceberg's words
        undo = "set the table's main branch back to the snapshot before it"
    elif taken.version:
        undo = f"RESTORE TABLE {where} TO VERSION AS OF {taken.version - 1}"
    return UnknownRows(
        f"version {taken.version} of {where} ({taken.operation}) {taken.how.value}, so it is unknown which rows of "
        f"group {consumer_group} are there. To undo that commit and everything after it, {undo}, and start again. Or "
        f"accept the table as it is, with {target}: missing rows are not read again. Or reset the offsets of topics"
    )


def goes_on_from(state: SinkState, now: SinkState) -> bool:
    """Whether only retries of bad records came between two looks: they leave the offsets as they are."""
    before, other = state.record, now.record
    if before is None or other is None or now.undone != state.undone:
        return False
    if now.taken_out is not None and now.taken_out.everything:
        return False
    return other == before or (other.is_retry and other.ends == before.ends)


def of_topics(offsets: Offsets, topics: Iterable[str]) -> Offsets:
    """The part of `offsets` that is in `topics`."""
    names = set(topics)
    return offsets.without({key for key in offsets if key.topic not in names})


def starting_offsets(known: Offsets, begin: Offsets, topics: tuple[str, ...], fallback: str) -> str:
    """The option startingOffsets for a group that has read `topics` up to `known`, of which a table has rows only up to
    `begin`.

    Where it has none, and in a new partition of a known topic, the read begins at the first message. An unknown topic
    starts by `fallback`, the setting for a first run. ConfigurationError if that is a time: the source takes times or
    offsets, not both.
    """
    if not known:
        return fallback
    unknown = sorted(set(topics) - _topics(known))
    if not unknown:
        entries: dict[str, Any] = {"default": "earliest"}
    elif moment_ms(fallback, "starting-offsets") is not None:
        raise ConfigurationError(
            f"starting-offsets is the time {fallback}, which is for a first run only; the group already has rows or "
            f"a position in some topics, but none in {', '.join(unknown)}. Give those as JSON from partition keys to "
            "offsets, or read them with another group"
        )
    else:
        given = json.loads(fallback) if fallback.lstrip().startswith("{") else {"default": fallback}
        entries = {name: value for name, value in given.items() if ":" not in name or name.split(":")[1] in unknown}
    missing = {str(key): "earliest" for key in known if key not in begin}
    # An entry of a store would replace that of a partition with the same text.
    return json.dumps(entries | missing | ({str(key): at for key, at in begin.items()} if missing else begin.to_dict()))


def start_text(known: Offsets, in_table: Offsets, topics: tuple[str, ...], starting: str | None) -> str:
    """Say where a run begins whose rows in the target end at `known`; `in_table` are the group's positions in the
    offsets table, and `starting` is what the user chose."""
    parts = [f"where the group's rows in the target end, in {_partitions(known)}"] if known else []
    if unknown := sorted(set(topics) - _topics(known)):
        parts.append(f"at {'earliest' if starting in (None, TARGET) else starting} in {', '.join(unknown)}")
    text = f"begins {'; '.join(parts)}"
    by_default = starting in (None, TARGET)
    ahead = [p for p, at in in_table.items() if at > known.get(p, 0) and (by_default or p.topic not in unknown)]
    if ahead:
        text += (
            f". The offsets table is ahead of the target in {_partitions(ahead)}: the group was read elsewhere, or "
            "was moved forward, or the target was restored or recreated. This target still gets those messages; to "
            "skip them, run once with reset-offsets for these topics and starting-offsets group"
        )
    return text


def _topics(offsets: Offsets) -> set[str]:
    return {partition.topic for partition in offsets}


def _partitions(partitions: Collection[PartitionKey]) -> str:
    topics = sorted({partition.topic for partition in partitions})
    return f"{counted(len(partitions), 'partition')} of {', '.join(topics)}"
