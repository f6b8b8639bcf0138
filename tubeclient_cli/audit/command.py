"""`tubeclient audit`: whether all that InLong sent is in the tables. Imports nothing heavy until it runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import of_environment
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    Unreachable,
    clear_errors,
    print_json,
    print_stderr,
    table_console,
)

if TYPE_CHECKING:
    from tubeclient.admin.inlong_audit import AuditService
    from tubeclient_cli.audit.verdicts import Hour
    from tubeclient_ingest.settings.ingest_settings import IngestSettings

_QUERY: Final = """
SELECT "inlongGroupId" AS "group", stream, date_trunc('hour', minute) AS hour,
       sum(received) AS received, sum(written) AS written, sum(bad) AS bad, min(sequence) AS first,
       max(CASE WHEN minute <= "time" THEN minute END) AS latest
FROM counts GROUP BY 1, 2, 3"""


def audit(
    settings: Annotated[Path | None, typer.Option(help="The job's TOML file.")] = None,
    counts: Annotated[str | None, typer.Option(metavar="PATH", help="The counts table (default: the job's).")] = None,
    audit: Annotated[
        str | None,
        typer.Option(metavar="URL", help="InLong's audit-service, to compare the counts with what DataProxy sent."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start from this hour (default: a day ago).")
    ] = None,
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="The time zone of Audit's clock, and of --since.")
    ] = "UTC",
    json: AsJson = False,
) -> None:
    """Compare an InLong group's counts with those of InLong's Audit, by stream and hour.

    Without --audit, checks that as many records were received as were written
    or bad. Exits with 1 if records are missing. Records do not count as missing
    at the edges of what the job has read: up to the hours of its first round,
    and in an hour until the job has read a record whose data time is an hour
    past that hour's end.

    Examples:

      tubeclient audit --settings conf/ingest.toml --audit http://audit:10080
    """
    with clear_errors("audit"):
        from spark_source.options.parsers import moment_ms
        from tubeclient.admin.inlong_audit import AuditService
        from tubeclient.wire.message_time import zone_named
        from tubeclient_cli.audit.verdicts import HOUR
        from tubeclient_cli.common.tables import print_rows
        from tubeclient_ingest.settings.load_settings import load_settings

        zone = zone_named(time_zone)
        service = None if audit is None else AuditService(audit, zone)
        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        if (since_ms := moment_ms(since or str(now - 24 * HOUR), "--since", zone)) is None:
            raise ConfigurationError(f"--since is {since!r}; write a time, such as 2026-11-21T10:00Z")
        begin = datetime.fromtimestamp(since_ms // 3_600_000 * 3600, UTC)
        job = None if settings is None else load_settings(settings, {}, of_environment())
        if (job is None and counts is None) or (job is not None and job.inlong_group is None):
            raise ConfigurationError("audit needs the --settings of a job with inlong-group, or its --counts")
        group, lines = audited(job, counts, service, begin, now + HOUR)
        missing, fault = sum(line["missing"] for line in lines if line["state"] == "missing"), None
        if missing:
            fault = f"{missing} records of group {group} are missing"
        elif service is not None and not any(line["sent"] for line in lines):
            fault = f"Audit has nothing for group {group} since {begin.isoformat()}; check --time-zone and DataProxy"
        if json:
            print_json({"inlongGroupId": group, "since": begin.isoformat(), "allThere": fault is None, "hours": lines})
        else:
            print_rows(table_console(), lines, leave_out=["sent"] if service is None else [])
            if not lines:
                print_stderr(f"tubeclient audit: no counts since {begin.isoformat()}; try an earlier --since")
        if fault is not None:
            print_stderr(f"tubeclient audit: {fault}")
            raise typer.Exit(ExitCode.FAILED)


def audited(
    job: IngestSettings | None, counts: str | None, service: AuditService | None, begin: datetime, end: datetime
) -> tuple[str, list[dict[str, Any]]]:
    """The group, and the lines of `judged` from `begin` on: of a job's counts table or that at `counts`, and with a
    `service` of what Audit has until `end`. ConfigurationError, Unreachable, AuditFailed."""
    from tubeclient_cli.audit.verdicts import judged
    from tubeclient_ingest.settings.group_settings import is_glob, left_out, target_of
    from tubeclient_ingest.settings.table_by import COUNTS, REST

    table, options = (counts or "", {}) if job is None else (counts or target_of(job, COUNTS), job.storage_options)
    group, hours = read_counts(table, options, None if job is None else job.inlong_group)
    if service is None:
        return group, judged(hours, None, begin)
    without = set[str]() if job is None else left_out(job)
    named = [] if job is None else [name for name in job.streams if not name.startswith("!")]
    if globs := sorted(filter(is_glob, {*named, *without})):
        raise ConfigurationError(f"the job's streams are {globs[0]}; to compare with Audit, write their names")
    there = {hour.stream for hour in hours} - {REST}
    names = [name for name in named if name not in without] or (*sorted(there | without), "*")
    sent = {name: service.sent(group, name, begin, end) for name in names}
    whole = sent.pop("*", {})  # the rest is what is of no stream of the table
    sent[REST] = {hour: max(0, n - sum(of.get(hour, 0) for of in sent.values())) for hour, n in whole.items()}
    return group, judged(hours, {name: of for name, of in sent.items() if name not in without - there}, begin)


def read_counts(uri: str, options: Mapping[str, str], group: str | None) -> tuple[str, list[Hour]]:
    """The group, or the only one, and what the counts table says of it. ConfigurationError for a group that it lacks;
    Unreachable if it cannot be read as one."""
    from offsets_store.errors import scrub
    from spark_source.options.table_uris import is_name, limited
    from tubeclient.extras import brought_by
    from tubeclient.printable import display_uri
    from tubeclient_cli.audit.verdicts import Hour

    if is_name(uri):
        raise ConfigurationError(
            f"{uri} is a name that only Spark knows; give the location from DESCRIBE DETAIL as --counts"
        )
    with brought_by("delta"):
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder
    options, where = limited(uri, options), display_uri(uri)
    try:
        query = QueryBuilder().register("counts", DeltaTable(uri, storage_options=dict(options))).execute(_QUERY)
        # As offsets_store.delta_rs does it, and for its reasons.
        rows = pa.RecordBatchReader.from_stream(query).read_all().to_pylist()
    except Exception as error:  # also plain Exception: delta-rs raises it for a missing file
        text = f"could not read {where} as a counts table: {scrub(str(error), options, uri)}"
        raise Unreachable(text) from None
    groups = sorted({row["group"] for row in rows})
    if group not in groups and (group is not None or len(groups) != 1):
        text = f"the counts table {where} has {', '.join(groups) or 'no group yet'}; give --settings of a job with one"
        raise ConfigurationError(text)
    group = group or groups[0]
    return group, [Hour(*(row[name] for name in Hour._fields)) for row in rows if row["group"] == group]
