"""`tubeclient bad-records`: its arguments. Imports nothing heavy until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.pairs import pairs, spark_confs
from tubeclient_cli.common.terminal import (
    AsJson,
    SparkConf,
    SparkMaster,
    StorageOptions,
    clear_errors,
    named_group,
    print_json,
    table_console,
)

__all__ = ["bad_records_app"]

bad_records_app = typer.Typer(
    name="bad-records",
    help="Look at the bad records of `tubeclient ingest --bad-records`, and try them again.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

PartOfReason = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only those whose reason has this text in it, in any case.")
]


@bad_records_app.command()
def show(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table of --bad-records.")],
    consumer_group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this group's.", parser=named_group)
    ] = None,
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
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Show the reasons of bad records, with counts, and the newest records.

    Reads the table with delta-rs, so its URI is delta-rs's ("s3", not "s3a").

    Example:

      tubeclient bad-records show /lake/_bad_records --reason JSON --newest 5
    """
    with clear_errors("bad-records show"):
        from tubeclient_cli.bad_records.display import bad_records_json, print_bad_records
        from tubeclient_cli.bad_records.table import Choice, read_bad_records
        from tubeclient_ingest.states import STATES

        if state not in (*STATES, "all"):
            raise ConfigurationError(f"--state is {state!r}; write one of {', '.join(STATES)}, all")
        choice = Choice(consumer_group, reason, None if state == "all" else state)
        found = read_bad_records(table, pairs("--storage-option", storage_option), choice, newest)
        if json:
            print_json(bad_records_json(found))
        else:
            chosen = consumer_group is not None or reason is not None
            nothing = "no records match" if chosen else "there are no records"
            others = "" if state == "all" else f" in the state {state}; --state all shows every state"
            print_bad_records(table_console(), found, nothing + others)


@bad_records_app.command()
def retry(
    settings: Annotated[Path, typer.Option(help="The job's TOML file. Correct the format or the schema there first.")],
    reason: PartOfReason = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would move, and change nothing.")] = False,
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    json: AsJson = False,
) -> None:
    """Parse a job's bad records again, and move those that are good now to the target.

    Each record is moved once. If the command is killed, nothing was moved, or
    all: start it again. The job may run meanwhile. Messages that the source
    itself cannot read stay bad.

    Example:

      tubeclient bad-records retry --settings conf/ingest.toml --dry-run
    """
    with clear_errors("bad-records retry"):
        from tubeclient_cli.common.cluster import of_environment
        from tubeclient_cli.common.live import live_tasks
        from tubeclient_cli.ingest.on_spark import on_spark
        from tubeclient_ingest.settings import load_settings

        confs = spark_confs(conf)
        job = load_settings(settings, {}, of_environment())
        if job.bad_records is None:
            raise ConfigurationError(f"{settings} has no bad-records in [ingest]; name the table")
        with (
            on_spark("tubeclient bad-records retry", spark_master, confs) as spark,
            live_tasks(spark, f"retry of {job.consumer_group}'s bad records"),
        ):
            from tubeclient_ingest.job import Ingest

            retried = Ingest.of(spark, job).retry(reason, dry_run=dry_run)
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
