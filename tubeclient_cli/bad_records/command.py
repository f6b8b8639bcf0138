"""`tubeclient bad-records`: its arguments. Imports nothing heavy until a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tubeclient_cli.common.pairs import pairs
from tubeclient_cli.common.terminal import AsJson, clear_errors, print_json, table_console

__all__ = ["bad_records_app"]

bad_records_app = typer.Typer(
    name="bad-records",
    help="Look at the bad records of `tubeclient ingest --bad-records`.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


@bad_records_app.callback()
def _bad_records() -> None:
    """Look at the bad records of `tubeclient ingest --bad-records`."""


@bad_records_app.command()
def show(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table of --bad-records.")],
    consumer_group: Annotated[str | None, typer.Option(metavar="NAME", help="Only this group's.")] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those whose reason has this text in it.")
    ] = None,
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE", help="bad: not in the target. undone: RESTORE took their batch out of it. Or all."
        ),
    ] = "bad",
    newest: Annotated[int, typer.Option(metavar="N", min=1, help="The most records and reasons to show.")] = 20,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Access to the table's storage, never printed; better in the environment, as AWS_SECRET_ACCESS_KEY.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show the reasons of bad records, with counts, and the newest records.

    Reads the table with delta-rs, so its URI is delta-rs's ("s3", not "s3a").

    Example:

      tubeclient bad-records show /lake/_bad_records --reason JSON --newest 5
    """
    with clear_errors("bad-records show"):
        from tubeclient_cli.bad_records.display import letters_json, print_letters
        from tubeclient_cli.bad_records.letters import Choice, read_letters

        choice = Choice(consumer_group, reason, None if state == "all" else state)
        letters = read_letters(table, pairs("--storage-option", storage_option), choice, newest)
        if json:
            print_json(letters_json(letters))
        else:
            print_letters(table_console(), letters)
