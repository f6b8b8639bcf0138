"""What a table of bad records has, read with delta-rs: without Spark. States follow from the targets' histories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from offsets_store.delta_form import values_of
from offsets_store.errors import display_uri, scrub
from spark_source.options.table_uris import HADOOPS_S3, limited
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient_cli.common.terminal import Unreachable
from tubeclient_ingest.history import Commit, SinkState, state_of
from tubeclient_ingest.record import SinkRecord
from tubeclient_ingest.states import BAD, RETRIED, UNDONE, committed

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["BadRecord", "Choice", "Found", "ReasonCount", "read_bad_records"]

_COLUMNS = (
    *("consumerGroup", "time", "reason", "topic", "partitionKey", "offset", "messageId", "recordIndex"),
    *("runId", "sequence", "target", "targetId", "value", "id", "retryOf"),
)
_SHOWN = ("consumerGroup", "state", *_COLUMNS[1:-2])

_MOST_REASONS: Final = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows of the table; None chooses all."""

    consumer_group: str | None = None
    reason: str | None = None
    """A part of the reason, in any case."""
    state: str | None = None


_NEVER_NULL: Final = ("consumerGroup", "state", "reason", "time", "newest")


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One bad record, as the table has it."""

    consumer_group: str
    state: str
    time: datetime
    reason: str
    topic: str
    partition: str
    offset: int | None
    message_id: int
    record_index: int | None
    run_id: str
    sequence: int
    target: str
    target_id: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many of the chosen rows have a reason."""

    consumer_group: str
    state: str
    reason: str
    records: int
    newest: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """The chosen rows: how many there are, by their most frequent reasons, and the newest ones."""

    records: int
    reasons_in_all: int
    """How many reasons there are, each of a group and a state; `reasons` has at most 100 of them."""
    reasons: tuple[ReasonCount, ...]
    newest: tuple[BadRecord, ...]
    unjudged: tuple[str, ...] = ()
    """Targets that cannot be read here: of their records none counts as undone."""


def read_bad_records(uri: str, storage_options: Mapping[str, str], choice: Choice, most: int) -> Found:
    """Read the counts and at most `most` of the newest rows. ConfigurationError if there is no such table at `uri`, or
    it cannot be read."""
    with brought_by("delta"):
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

    place = display_uri(uri)
    if place.partition("://")[0].lower() in HADOOPS_S3:
        raise ConfigurationError(f"{place} is Spark's name of the table; this command reads it as s3://...")
    options = limited(uri, storage_options)
    try:
        table = DeltaTable(uri, storage_options=options or None)
        missing = {*_COLUMNS}.difference(field.name for field in table.schema().fields)
        if missing:
            raise ConfigurationError(
                f"the Delta table {place} is not a table of bad records: it has no {min(missing)}. Is it the target?"
            )
        return _read(table, choice, most, place, options)
    except TableNotFoundError:
        raise ConfigurationError(
            f"there is no Delta table at {place}; check the path. `tubeclient ingest --bad-records` creates the table "
            "when it starts, before there is a bad record"
        ) from None
    except ConfigurationError:
        raise
    except Exception as error:  # also plain Exception: delta-rs raises it for a missing file
        raise Unreachable(f"{place} cannot be read: {scrub(str(error), storage_options, uri)}") from None


def _read(table: DeltaTable, choice: Choice, most: int, place: str, storage_options: Mapping[str, str]) -> Found:
    import pyarrow as pa
    from deltalake import QueryBuilder

    query = QueryBuilder().register("kept", table)

    def rows(sql: str) -> list[dict[str, object]]:
        # pyarrow pulls the rows: deltalake's own read_all() blocks all threads of the process while a store is slow.
        found = pa.RecordBatchReader.from_stream(query.execute(sql)).read_all()
        columns = (values_of(column) for column in found.itercolumns())
        return [dict(zip(found.column_names, values, strict=True)) for values in zip(*columns, strict=True)]

    unjudged = []
    there = []
    for one in rows('SELECT DISTINCT "consumerGroup", "target", "targetId" FROM kept'):
        group, target, target_id = (str(one[name]) for name in ("consumerGroup", "target", "targetId"))
        own = f'"consumerGroup" = {_quoted(group)} AND "targetId" = {_quoted(target_id)}'
        state = _state_in(target, target_id, group, storage_options)
        if state is None:
            unjudged.append(display_uri(target))
        there.append(f"({own} AND {'true' if state is None else committed(state, lambda name: json.dumps(name))})")
    there_sql = " OR ".join(there) or "false"
    marks = f'SELECT DISTINCT "retryOf" AS moved FROM kept WHERE "retryOf" IS NOT NULL AND ({there_sql})'  # noqa: S608
    state_sql = f"CASE WHEN NOT ({there_sql}) THEN '{UNDONE}' WHEN moved IS NOT NULL THEN '{RETRIED}' ELSE '{BAD}' END"
    source = (
        f'(SELECT *, {state_sql} AS "state" FROM kept LEFT JOIN ({marks}) AS marks ON "id" = moved'  # noqa: S608
        ' WHERE "retryOf" IS NULL) AS kept_records'
    )
    chosen = _where(choice)  # quotes what users give
    by = '"consumerGroup", "state", "reason"'
    counts = f'SELECT {by}, count(*) AS n, max("time") AS newest FROM {source} {chosen} GROUP BY {by}'  # noqa: S608
    reasons = rows(
        f"SELECT *, sum(n) OVER () AS records, count(*) OVER () AS reasons FROM ({counts}) AS counts"  # noqa: S608
        f" ORDER BY n DESC, {by} LIMIT {_MOST_REASONS}"
    )
    names = ", ".join(f'"{name}"' for name in _SHOWN)
    order = '"time" DESC, "sequence" DESC, "partitionKey", "messageId", "recordIndex"'
    newest = rows(f"SELECT {names} FROM {source} {chosen} ORDER BY {order} LIMIT {most}")  # noqa: S608
    for row in (*reasons, *newest):  # Delta's columns take null, the job writes none
        if empty := [name for name in _NEVER_NULL if name in row and row[name] is None]:
            raise ConfigurationError(
                f"the table of bad records {place} has a row without {empty[0].replace('newest', 'time')}; another tool"
                " wrote it. Delete such rows"
            )
    [(records, in_all)] = {(row.pop("records"), row.pop("reasons")) for row in reasons} or {(0, 0)}
    return Found(
        records,  # type: ignore[arg-type]
        in_all,  # type: ignore[arg-type]
        tuple(ReasonCount(*row.values()) for row in reasons),  # type: ignore[arg-type]
        tuple(BadRecord(*(row[name] for name in _SHOWN)) for row in newest),  # type: ignore[arg-type]
        tuple(sorted(set(unjudged))),
    )


def _where(choice: Choice) -> str:
    parts = []
    if choice.consumer_group is not None:
        parts.append(f'"consumerGroup" = {_quoted(choice.consumer_group)}')
    if choice.state is not None:
        parts.append(f'"state" = {_quoted(choice.state)}')
    if choice.reason is not None:
        parts.append(f'strpos(lower("reason"), lower({_quoted(choice.reason)})) > 0')
    return f"WHERE {' AND '.join(parts)}" if parts else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _state_in(place: str, target_id: str, group: str, storage_options: Mapping[str, str]) -> SinkState | None:
    """What the target says of the group; None if it cannot be read here, is another table by now, or has forgotten the
    group."""
    from deltalake import DeltaTable

    try:
        table = DeltaTable(place, storage_options=dict(storage_options) or None)
        if str(table.metadata().id) != target_id:
            return None
        commits = map(Commit.of, table.history())
        state = state_of(sorted(commits, key=lambda one: -one.version), group, target_id)
        if not state.is_whole:
            last = table.transaction_version(SinkRecord.transaction_id_of(group))
            if last is None and state.record is None:
                return None
            state = replace(state, sequence=max(state.sequence, last or 0))
    except Exception:  # also plain Exception: delta-rs raises it for a missing file
        return None
    return state
