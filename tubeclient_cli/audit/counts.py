"""Reads the counts table of `tubeclient ingest` through delta-rs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tubeclient.errors import ConfigurationError
from tubeclient.names import near_names
from tubeclient_cli.audit.verdicts import Hour
from tubeclient_cli.common.terminal import Unreachable

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["Counts", "read_counts"]

_COLUMNS: Final = ("inlongGroupId", "inlongStreamId", "minute", "received", "written", "bad", "sequence", "time")


class Counts(NamedTuple):
    """What the counts table says of a group. Times are in UTC."""

    hours: list[Hour]
    """Those of the asked time and stream, and those without data time."""
    streams: list[str]
    """All of the group."""
    first_round_to: datetime | None
    """The latest minute of the group's first round."""
    newest: datetime | None
    """The latest minute of all rounds."""


def read_counts(
    uri: str, options: Mapping[str, str], group: str, stream: str | None, since: datetime, until: datetime
) -> Counts:
    """What the counts table at `uri`, a path or URI, says of the group. ConfigurationError for what is no counts table,
    and for a group or stream that it lacks; Unreachable if the table cannot be read."""
    from offsets_store.errors import display_uri, scrub
    from spark_source.options.table_uris import is_name, limited
    from tubeclient.extras import brought_by

    if is_name(uri):
        raise ConfigurationError(
            f"--counts is {uri}, a table's name, which Spark alone can look up; give the path or URI that DESCRIBE"
            " DETAIL shows as its location"
        )
    with brought_by("delta"):
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    options = limited(uri, options)
    where = display_uri(uri)
    try:
        table = DeltaTable(uri, storage_options=dict(options) or None)
        names = {field.name for field in table.schema().fields}
        if missing := [name for name in _COLUMNS if name not in names]:
            raise ConfigurationError(
                f"the table at {where} is no counts table: it lacks {', '.join(missing)}; see --counts of the job"
            )
        streams = _check_names(table, group, stream, where)
        return Counts(_hours(table, group, stream, since, until), streams, *_bounds(table, group))
    except ConfigurationError:
        raise
    except TableNotFoundError:
        raise ConfigurationError(f"there is no Delta table at {where}; check --counts") from None
    except Exception as error:  # also plain Exception: delta-rs raises it for a missing file
        text = scrub(str(error), options, uri)
        raise Unreachable(f"could not read the counts table at {where}: {text}") from None


def _check_names(table: DeltaTable, group: str, stream: str | None, where: str) -> list[str]:
    """The streams of the group."""
    groups = sorted(row["name"] for row in _rows(table, 'DISTINCT "inlongGroupId" AS name', "true") if row["name"])
    if group not in groups:
        there = near_names([group], groups) or f"it has {', '.join(groups) or 'no group yet'}"
        raise ConfigurationError(f"the counts table at {where} has nothing of the group {group}; {there}")
    found = _rows(table, 'DISTINCT "inlongStreamId" AS name', _of(group))
    streams = sorted(row["name"] for row in found if row["name"])
    if stream is not None and stream not in streams:
        there = near_names([stream], streams) or f"it has {', '.join(streams) or 'none'}"
        raise ConfigurationError(f"the counts table at {where} has no stream {stream} of the group {group}; {there}")
    return streams


def _hours(table: DeltaTable, group: str, stream: str | None, since: datetime, until: datetime) -> list[Hour]:
    within = f"(minute IS NULL OR minute >= {_moment(since)} AND minute < {_moment(until)})"
    of_stream = "" if stream is None else f" AND \"inlongStreamId\" = '{_quoted(stream)}'"
    keys = "\"inlongStreamId\" AS stream, date_trunc('hour', minute) AS hour"
    sums = "sum(received) AS received, sum(written) AS written, sum(bad) AS bad"
    rows = _rows(table, f"{keys}, {sums}", f"{_of(group)} AND {within}{of_stream} GROUP BY 1, 2")
    return [Hour(**{**row, "hour": _utc(row["hour"])}) for row in rows]


def _bounds(table: DeltaTable, group: str) -> tuple[datetime | None, datetime | None]:
    # A clock that is ahead closes no hour.
    latest = 'max(CASE WHEN minute <= "time" THEN minute END) AS latest'
    rounds = _rows(table, f"sequence, {latest}", f"{_of(group)} GROUP BY sequence ORDER BY sequence")
    newest = max((row["latest"] for row in rounds if row["latest"] is not None), default=None)
    return _utc(rounds[0]["latest"]), _utc(newest)


def _rows(table: DeltaTable, columns: str, where: str) -> list[dict[str, Any]]:
    import pyarrow as pa
    from deltalake import QueryBuilder

    query = f"SELECT {columns} FROM counts WHERE {where}"  # noqa: S608 - names are quoted, and only read
    # As offsets_store.delta_rs does it, and for its reasons.
    found = pa.RecordBatchReader.from_stream(QueryBuilder().register("counts", table).execute(query)).read_all()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _of(group: str) -> str:
    return f"\"inlongGroupId\" = '{_quoted(group)}'"


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _moment(moment: datetime) -> str:
    return f"to_timestamp('{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}')"


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
