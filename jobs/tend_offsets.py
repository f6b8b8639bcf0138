"""Report on the groups of an offsets table, and clean the table up. Needs no Spark.

    python jobs/tend_offsets.py --settings conf/tend.toml

For cron and other schedulers; spark-submit starts it as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from offsets_store import OffsetsTable, OffsetsTableError
from offsets_store.errors import display_uri
from offsets_store.health import GroupPast, Verdict
from spark_source.options.option import Masked
from spark_source.options.settings_file import SettingsFile, check_own
from tubeclient.conditions import said
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient_cli.common.cluster import masters_of_environment, settings_of
from tubeclient_cli.common.offsets_tables import nothing_kept, progress_in
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    clear_errors,
    exit_code,
    print_json,
    script_app,
    table_console,
    tell,
)
from tubeclient_cli.offsets.brokers import Brokers
from tubeclient_cli.offsets.display import print_progress, print_status, progress_json, status_json
from tubeclient_cli.offsets.status import GroupStatus, group_status

__all__ = ["TendSettings", "load_tend", "tend_offsets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TendSettings:
    """An offsets table, and the cluster of its groups."""

    offsets_table: str
    master_servers: str
    source_options: Mapping[str, str]
    storage_options: Mapping[str, str]
    consumer_groups: tuple[str, ...] = ()
    """Empty: all groups of the table."""
    retention_hours: int | None = None
    """How long older versions of the table stay readable; None: what `OffsetsTable.maintain` keeps."""
    time_zone: str = "UTC"
    """The zone of the producers' clocks."""

    def __post_init__(self) -> None:
        check_own(self.source_options, {"masterservers": "master-servers"})
        _ = settings_of(self.master_servers, self.source_options)
        if self.retention_hours is not None and self.retention_hours < 1:
            raise ConfigurationError(
                f"retention-hours is {self.retention_hours}; keep the history of one hour at least"
            )


def load_tend(path: Path) -> TendSettings:
    """The settings of a file. Raises ConfigurationError."""
    file = SettingsFile(path, ("tend", "source", "storage-options"))
    return file.filled(
        "tend",
        TendSettings,
        {},
        masters_of_environment(),
        source_options=Masked(file.options("source")),
        storage_options=Masked(file.secrets("storage-options")),
    )


def _status(past: GroupPast, settings: TendSettings) -> GroupStatus:
    with contextlib.closing(Brokers(settings.master_servers, past.group, settings.source_options)) as brokers:
        return group_status(past, brokers, datetime.now(UTC), time_zone=settings.time_zone)


def _code_of(status: GroupStatus) -> ExitCode:
    if status.health.verdict not in (Verdict.OK, Verdict.UNKNOWN):
        return ExitCode.FAILED
    return ExitCode.UNREACHABLE if status.health.unjudged else ExitCode.DONE


def _report(
    table: OffsetsTable, group: str, settings: TendSettings, *, as_json: bool
) -> tuple[dict[str, Any], ExitCode]:
    """A group's positions and its verdict; printed, unless `as_json`. A cluster that cannot be asked is no reason to
    leave out the rest."""
    progress, past = progress_in(table, group), table.past(group)
    if past is None:
        raise nothing_kept(table, settings.offsets_table, group)
    found = progress_json(group, progress)
    if not as_json:
        print_progress(table_console(), progress)
    try:
        status = _status(past, settings)
    except TubeError as error:
        typer.echo(f"{group}: {said(error)}", err=True)
        return {**found, "status": None}, exit_code(error)
    if not as_json:
        print_status(table_console(), status)
    return {**found, "status": status_json(status)}, _code_of(status)


def _told(table: OffsetsTable, group: str, settings: TendSettings, *, as_json: bool) -> tuple[dict[str, Any], ExitCode]:
    """As `_report`, for a group that the user did not name: rows that cannot be read are no reason to leave out the
    rest either."""
    try:
        return _report(table, group, settings, as_json=as_json)
    except (TubeError, OffsetsTableError) as error:
        tell(f"{group}: {said(error)}")
        return {"consumerGroup": group, "status": None}, exit_code(error)


def tend_offsets(
    settings: Annotated[Path, typer.Option(help="TOML file with the settings, as conf/tend.toml.")],
    json: AsJson = False,
) -> None:
    """Report on the groups of an offsets table, and clean the table up.

    For each group: its position in each partition and who reads it, as
    `tubeclient offsets show`, and whether it is well, as `tubeclient offsets
    status`. Then the table gets a checkpoint of its log, and files and log
    entries that no kept version needs are deleted. Queries go on meanwhile.

    There is nothing to compact: each commit replaces a group's one file, so
    a table has as many files as groups. What grows is the history, which is
    kept for a week, or for retention-hours.

    The exit code is 1 if a group is not well, or 3 if some cannot be judged.
    The table is cleaned up in both cases.

    Keys for the table's storage belong in the settings file, table
    storage-options, best as {env = "NAME"}.

    Example:

      python jobs/tend_offsets.py --settings conf/tend.toml
    """
    script = "tend_offsets.py"
    with clear_errors(script, ""):
        job = load_tend(settings)
        where = display_uri(job.offsets_table)
        table = OffsetsTable(job.offsets_table, job.storage_options)
        if not table.exists():
            raise ConfigurationError(f"there is no Delta table at {where}; check offsets-table")
        reports = [_report(table, group, job, as_json=json) for group in job.consumer_groups]
        reports += [_told(table, group, job, as_json=json) for group in table.groups() if not job.consumer_groups]
        deleted = table.maintain(job.retention_hours)
        if json:
            print_json({"groups": [found for found, _ in reports], "filesDeleted": deleted})
        else:
            typer.echo(f"done: {deleted:,} files of {where} deleted")
        codes = {code for _, code in reports}
        raise typer.Exit(
            next((code for code in (ExitCode.FAILED, ExitCode.USAGE, ExitCode.UNREACHABLE) if code in codes), 0)
        )


if __name__ == "__main__":
    script_app(tend_offsets)()
