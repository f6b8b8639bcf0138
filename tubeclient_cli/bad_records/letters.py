"""What a dead-letter table has, read with delta-rs: without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from offsets_store.delta_form import values_of
from offsets_store.errors import display_uri, scrub
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient_cli.common.table_uris import HADOOPS_S3, limited
from tubeclient_cli.common.terminal import Unreachable
from tubeclient_cli.ingest.letter_states import BAD, RETRIED, UNDONE

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["STATES", "Choice", "Letter", "Letters", "ReasonCount", "read_letters"]

_COLUMNS = (
    *("consumerGroup", "state", "time", "reason", "topic", "partitionKey", "offset", "messageId", "recordIndex"),
    *("queryId", "batchId", "sequence", "targetId", "value"),
)

_MOST_REASONS: Final = 100

STATES: Final = (BAD, RETRIED, UNDONE)
"""What `state` of a row may be."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which rows of the table; None chooses all."""

    consumer_group: str | None = None
    reason: str | None = None
    """A part of the reason, in any case."""
    state: str | None = None


_NEVER_NULL: Final = ("consumerGroup", "state", "reason", "time", "newest")


@dataclass(frozen=True, slots=True)
class Letter:
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
    query_id: str
    batch_id: int
    sequence: int
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
class Letters:
    """The chosen rows: how many there are, by their most frequent reasons, and the newest ones."""

    records: int
    reasons_in_all: int
    """How many reasons there are, each of a group and a state; `reasons` has at most 100 of them."""
    reasons: tuple[ReasonCount, ...]
    newest: tuple[Letter, ...]


def read_letters(uri: str, storage_options: Mapping[str, str], choice: Choice, most: int) -> Letters:
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
        return _read(table, choice, most, place)
    except TableNotFoundError:
        raise ConfigurationError(
            f"there is no Delta table at {place}; check the path. `tubeclient ingest --bad-records` creates the table "
            "when it starts, before there is a bad record"
        ) from None
    except ConfigurationError:
        raise
    except Exception as error:  # also plain Exception: delta-rs raises it for a missing file
        raise Unreachable(f"{place} cannot be read: {scrub(str(error), storage_options, uri)}") from None


def _read(table: DeltaTable, choice: Choice, most: int, place: str) -> Letters:
    import pyarrow as pa
    from deltalake import QueryBuilder

    query = QueryBuilder().register("letters", table)

    def rows(sql: str) -> list[dict[str, object]]:
        # pyarrow pulls the rows: deltalake's own read_all() blocks all threads of the process while a store is slow.
        found = pa.RecordBatchReader.from_stream(query.execute(sql)).read_all()
        columns = (values_of(column) for column in found.itercolumns())
        return [dict(zip(found.column_names, values, strict=True)) for values in zip(*columns, strict=True)]

    chosen = _where(choice)  # quotes what users give
    by = '"consumerGroup", "state", "reason"'
    counts = f'SELECT {by}, count(*) AS n, max("time") AS newest FROM letters {chosen} GROUP BY {by}'  # noqa: S608
    reasons = rows(
        f"SELECT *, sum(n) OVER () AS records, count(*) OVER () AS reasons FROM ({counts}) AS counts"  # noqa: S608
        f" ORDER BY n DESC, {by} LIMIT {_MOST_REASONS}"
    )
    names = ", ".join(f'"{name}"' for name in _COLUMNS)
    order = '"time" DESC, "sequence" DESC, "partitionKey", "messageId", "recordIndex"'
    newest = rows(f"SELECT {names} FROM letters {chosen} ORDER BY {order} LIMIT {most}")  # noqa: S608
    for row in (*reasons, *newest):  # Delta's columns take null, the job writes none
        if empty := [name for name in _NEVER_NULL if name in row and row[name] is None]:
            raise ConfigurationError(
                f"the table of bad records {place} has a row without {empty[0].replace('newest', 'time')}; another tool"
                " wrote it. Delete such rows"
            )
    [(records, in_all)] = {(row.pop("records"), row.pop("reasons")) for row in reasons} or {(0, 0)}
    return Letters(
        records,  # type: ignore[arg-type]
        in_all,  # type: ignore[arg-type]
        tuple(ReasonCount(*row.values()) for row in reasons),  # type: ignore[arg-type]
        tuple(Letter(*(row[name] for name in _COLUMNS)) for row in newest),  # type: ignore[arg-type]
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
