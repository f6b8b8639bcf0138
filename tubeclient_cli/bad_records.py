"""`tubeclient bad-records`: look at the bad records of `tubeclient ingest`, and try them again. Imports nothing heavy
until a command runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient.printable import counted
from tubeclient_cli.common.cluster import spark_confs
from tubeclient_cli.common.terminal import AsJson, SparkConf, SparkMaster, clear_errors, print_json, table_console

if TYPE_CHECKING:
    from tubeclient_ingest.job import Ingest

__all__ = ["bad_records_app"]

bad_records_app = typer.Typer(
    name="bad-records",
    help="Show the bad records of `tubeclient ingest --bad-records`, and retry them.",
    no_args_is_help=True,
)

_TIMES: Final = ["%Y-%m-%dT%H:%MZ", "%Y-%m-%d"]

Settings = Annotated[Path, typer.Option(help="The job's TOML file.")]
PartOfReason = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only records whose reason contains this text, ignoring case.")
]


@bad_records_app.command()
def show(
    settings: Settings,
    reason: PartOfReason = None,
    since: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", formats=_TIMES, help="Only records from this time on, such as 2026-11-21T10:31Z."),
    ] = None,
    newest: Annotated[int, typer.Option(metavar="N", min=1, help="The maximum number of records to show.")] = 20,
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    json: AsJson = False,
) -> None:
    """Show why a job's records are bad, with counts, and the newest records.

    Example:

      tubeclient bad-records show --settings conf/ingest.toml --reason JSON
    """
    with clear_errors("bad-records show"):
        from tubeclient_cli.facts.bad_records import found_bad_records, place_columns

        with _job(settings, spark_master, conf) as job:
            document = found_bad_records(job.bad_records(), reason, since, newest)
        if json:
            print_json(document)
            return
        from tubeclient_cli.common.tables import print_rows

        console = table_console()
        print_rows(console, document["reasons"])
        for record in document["newest"]:
            place = ", ".join(
                f"{word} {record[name]}" for name, word in place_columns().items() if record[name] is not None
            )
            console.print()
            console.print(f"{record['time']}, {place}: {record['reason']}", soft_wrap=True)
            if record["value"] is not None:
                console.print(f"    {record['value']}", soft_wrap=True)
        if document["records"]:
            shown = len(document["newest"])
            console.print(f"{document['records']:,} records; showing the newest {shown:,}")
        else:
            console.print("no bad records match" if reason or since else "there are no bad records")


@bad_records_app.command()
def retry(
    settings: Settings,
    reason: PartOfReason = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would move, without changing anything.")
    ] = False,
    spark_master: SparkMaster = None,
    conf: SparkConf = None,
    json: AsJson = False,
) -> None:
    """Parse a job's bad records again, and move those that are now good to the target.

    First correct the format or the schema in the settings. Each record is moved
    once. If the command is killed, it has moved either nothing or everything:
    start it again. The job may keep running. Messages that the source itself
    cannot read stay bad.

    Example:

      tubeclient bad-records retry --settings conf/ingest.toml --dry-run
    """
    with clear_errors("bad-records retry"):
        with _job(settings, spark_master, conf) as job:
            retried = job.retry(reason, dry_run=dry_run)
        if json:
            counts = {"moved": retried.moved, "stillBad": retried.still_bad, "notReadable": retried.unread}
            print_json({"dryRun": dry_run, **counts, "withoutValue": retried.without_value})
            return
        others = "" if reason is None else "; records with other reasons were not tried"
        if retried.unread:
            others += f"; {retried.unread:,} more were not tried, because the source itself cannot read their messages"
        if retried.without_value:
            others += f"; {retried.without_value:,} more were not tried, because their values were not kept"
        moved = "to be moved to the target, which this dry run did not do" if dry_run else "moved to the target"
        typer.echo(
            f"tried {counted(retried.moved + retried.still_bad, 'bad record')}: {retried.moved:,} {moved},"
            f" {retried.still_bad:,} still bad{others}"
        )


@contextlib.contextmanager
def _job(file: Path, master: str | None, conf: list[str] | None) -> Iterator[Ingest]:
    """The job of a settings file, with a session of Spark."""
    from tubeclient_cli.common.cluster import of_environment
    from tubeclient_ingest.settings.load_settings import load_settings

    confs = spark_confs(conf)
    job = load_settings(file, {}, of_environment())
    if job.bad_records is None:
        raise ConfigurationError(f"{file} has no bad-records in [ingest]; name the table")
    with brought_by("spark"):
        from tubeclient_cli.common.session import on_spark
        from tubeclient_ingest.job import Ingest
        from tubeclient_ingest.tables.spark_errors import explained
    name = f"tubeclient bad-records of {job.consumer_group}"
    with on_spark(name, master, confs) as spark, explained():
        yield Ingest(spark, settings=job)
