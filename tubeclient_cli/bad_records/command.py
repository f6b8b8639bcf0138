"""`tubeclient bad-records`: its arguments. Imports nothing heavy until a command runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import spark_confs
from tubeclient_cli.common.terminal import (
    AsJson,
    SparkConf,
    SparkMaster,
    clear_errors,
    print_json,
    table_console,
)

if TYPE_CHECKING:
    from tubeclient_ingest.job import Ingest

__all__ = ["bad_records_app"]

bad_records_app = typer.Typer(
    name="bad-records",
    help="Look at the bad records of `tubeclient ingest --bad-records`, and try them again.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

Settings = Annotated[Path, typer.Option(help="The job's TOML file.")]
PartOfReason = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only those whose reason has this text in it, in any case.")
]


@bad_records_app.command()
def show(
    settings: Settings,
    reason: PartOfReason = None,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE",
            help="bad: not in the target. retried: in the target since a retry. undone: the target does not have their "
            "commit, as RESTORE took it out, or the job was killed before it. all: every state.",
        ),
    ] = "bad",
    newest: Annotated[int, typer.Option(metavar="N", min=1, help="The most records to show.")] = 20,
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    json: AsJson = False,
) -> None:
    """Show why a job's records are bad, with counts, and the newest records.

    Example:

      tubeclient bad-records show --settings conf/ingest.toml --reason JSON
    """
    with clear_errors("bad-records show"):
        from tubeclient_cli.bad_records.display import bad_records_json, find, print_bad_records
        from tubeclient_ingest.states import STATES

        if state not in (*STATES, "all"):
            raise ConfigurationError(f"--state is {state!r}; write one of {', '.join(STATES)}, all")
        with _job("show", settings, spark_master, conf, "bad records of {}") as job:
            found = find(job.bad_records(), None if state == "all" else state, reason, newest)
        if json:
            print_json(bad_records_json(found))
        else:
            nothing = "there are no records" if reason is None else "no records match"
            others = "" if state == "all" else f" in the state {state}; --state all shows every state"
            print_bad_records(table_console(), found, nothing + others)


@bad_records_app.command()
def retry(
    settings: Settings,
    reason: PartOfReason = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would move, and change nothing.")] = False,
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    json: AsJson = False,
) -> None:
    """Parse a job's bad records again, and move those that are good now to the target.

    Correct the format or the schema in the settings first.
    Each record is moved once. If the command is killed, nothing was moved, or
    all: start it again. The job may run meanwhile. Messages that the source
    itself cannot read stay bad.

    Example:

      tubeclient bad-records retry --settings conf/ingest.toml --dry-run
    """
    with clear_errors("bad-records retry"):
        with _job("retry", settings, spark_master, conf, "retry of {}'s bad records") as job:
            retried = job.retry(reason, dry_run=dry_run)
        if json:
            counts = {"moved": retried.moved, "stillBad": retried.still_bad, "notReadable": retried.unread}
            print_json({"dryRun": dry_run, **counts})
            return
        others = "" if reason is None else "; those with other reasons were not tried"
        if retried.unread:
            others += f"; {retried.unread:,} more were not tried, as the source itself cannot read their messages"
        moved = "would be moved to the target, if this were no dry run" if dry_run else "were moved to the target"
        typer.echo(
            f"{retried.moved + retried.still_bad:,} bad records were tried: {retried.moved:,} {moved},"
            f" {retried.still_bad:,} are still bad{others}"
        )


@contextlib.contextmanager
def _job(command: str, file: Path, master: str | None, conf: list[str] | None, what: str) -> Iterator[Ingest]:
    """The job of a settings file, with a session of Spark; a terminal shows `what` it does, with the group's name."""
    from tubeclient_cli.common.cluster import of_environment
    from tubeclient_cli.common.live import live_tasks
    from tubeclient_cli.ingest.on_spark import on_spark
    from tubeclient_ingest.settings import load_settings

    confs = spark_confs(conf)
    job = load_settings(file, {}, of_environment())
    if job.bad_records is None:
        raise ConfigurationError(f"{file} has no bad-records in [ingest]; name the table")
    with (
        on_spark(f"tubeclient bad-records {command}", master, confs) as spark,
        live_tasks(spark, what.format(job.consumer_group)),
    ):
        from tubeclient_ingest.job import Ingest

        yield Ingest.of(spark, job)
