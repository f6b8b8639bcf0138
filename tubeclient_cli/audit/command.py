"""`tubeclient audit`: its arguments. Imports nothing heavy until it runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import of_environment, pairs
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    StorageOptions,
    clear_errors,
    counted,
    print_json,
    table_console,
    tell,
)

if TYPE_CHECKING:
    from tubeclient_cli.audit.verdicts import Line

__all__ = ["audit"]

_DAY: Final = timedelta(days=1)


def audit(
    settings: Annotated[Path | None, typer.Option(help="The job's TOML file; instead of --counts and --group.")] = None,
    counts: Annotated[str | None, typer.Option(metavar="PATH", help="The job's counts table, a path or URI.")] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="The InLong group.")] = None,
    stream: Annotated[str | None, typer.Option(metavar="NAME", help="Only this stream (default: all).")] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="InLong's audit-service, such as http://audit:10080, to compare with what DataProxy sent. Default: "
            "only whether received are as many as written and bad.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this hour of data time (default: a day before --until).")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Until before this hour (default: now).")] = None,
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="The time zone of Audit's clock, and of times without a zone.")
    ] = "UTC",
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Compare an ingest job's counts with those of InLong's Audit, by stream and hour.

    Exits with 1 if records are missing. They are not while the hour is open: the
    job has read no record yet whose data time is an hour past its end. Nor up to
    the hours of the job's first round, which may have begun after them.

    Examples:

      tubeclient audit --settings conf/ingest.toml --audit http://audit:10080

      tubeclient audit --counts /lake/logs/_counts --group shop \\
        --audit http://audit:10080 --time-zone Asia/Shanghai --since 2026-11-21
    """
    with clear_errors("audit"):
        from tubeclient.admin.inlong_audit import AuditService
        from tubeclient.wire.message_time import zone_named
        from tubeclient_cli.audit.counts import read_counts
        from tubeclient_cli.audit.verdicts import ALL_STREAMS, by_hour, judged

        zone = zone_named(time_zone)
        service = None if audit is None else AuditService(audit, zone)
        end = _hour(until, "--until", zone, datetime.now(UTC), up=True)
        begin = _hour(since, "--since", zone, end - _DAY)
        if begin >= end:
            raise ConfigurationError(f"--since is not before --until: {begin.isoformat()}, {end.isoformat()}")
        table, of_group, options = _places(settings, counts, group)
        options.update(pairs("--storage-option", storage_option))
        found = read_counts(table, options, of_group, stream, begin, end)
        sent = None
        if service is not None:
            names = [*found.streams, ALL_STREAMS] if stream is None else [stream]
            sent = {name: by_hour(service.counts(of_group, name, begin, end)) for name in names}
        lines = judged(found.hours, sent, found.first_round_to, found.newest)
        faults = _faults(lines, of_group)
        if json:
            print_json(
                {
                    "inlongGroupId": of_group,
                    "since": begin.isoformat(),
                    "until": end.isoformat(),
                    "allThere": not faults,
                    "hours": [_shown(line) for line in lines],
                }
            )
        elif lines:
            from tubeclient_cli.common.tables import print_rows

            left_out = ["sent", "missing"] if sent is None else []
            print_rows(table_console(), [_shown(line) for line in lines], leave_out=left_out)
        else:
            typer.echo("nothing was sent or received in this time")
        for fault in faults:
            tell(f"tubeclient audit: {fault}")
        if faults:
            raise typer.Exit(ExitCode.FAILED)


def _places(settings: Path | None, counts: str | None, group: str | None) -> tuple[str, str, dict[str, str]]:
    """The counts table, the InLong group, and the storage's options. ConfigurationError if one is not given."""
    options: dict[str, str] = {}
    if settings is not None:
        from tubeclient_ingest.settings import load_settings

        job = load_settings(settings, {}, of_environment())
        options.update(job.storage_options)
        counts, group = counts or getattr(job, "counts", None), group or getattr(job, "inlong_group", None)
    if not counts or not group:
        raise ConfigurationError("audit needs --counts and --group, or --settings of a job with inlong-group")
    return counts, group, options


def _hour(text: str | None, flag: str, zone: Any, otherwise: datetime, *, up: bool = False) -> datetime:
    """The hour that a time is in, in UTC; with `up` the next one, if it is not the hour itself."""
    from spark_source.options.parsers import moment_ms

    moment = otherwise
    if text is not None:
        if (found := moment_ms(text, flag, zone)) is None:
            raise ConfigurationError(f"{flag} is {text!r}; write a time, as 2026-11-21T10:00Z")
        moment = datetime.fromtimestamp(found / 1000, UTC)
    hour = moment.replace(minute=0, second=0, microsecond=0)
    return hour + timedelta(hours=1) if up and hour != moment else hour


def _shown(line: Line) -> dict[str, Any]:
    hour = None if line.hour is None else line.hour.isoformat(timespec="minutes")
    return {**line._asdict(), "hour": hour, "state": line.state.value}


def _faults(lines: Sequence[Line], group: str) -> list[str]:
    """What is not well, for the end of the output."""
    from tubeclient_cli.audit.verdicts import State

    faults = []
    if missing := [line for line in lines if line.state is State.MISSING]:
        number = counted(sum(line.missing or 0 for line in missing), "record")
        faults.append(f"{number} of {counted(len(missing), 'stream')} and hours that DataProxy sent did not arrive")
    if unbalanced := [line for line in lines if line.state is State.UNBALANCED]:
        faults.append(f"{counted(len(unbalanced), 'line')} where received are not as many as written and bad")
    if any(line.sent is not None for line in lines) and not any(line.sent for line in lines):
        faults.append(
            f"Audit has nothing of the group {group} in this time; check --group and --time-zone, and whether DataProxy"
            " reports"
        )
    return faults
