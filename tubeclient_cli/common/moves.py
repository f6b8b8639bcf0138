"""Before positions move: the options, what would move as a table, and the questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.terminal import ExitCode, one_line, table_console

if TYPE_CHECKING:
    from tubeclient_cli.facts.position_moves import PositionMove

__all__ = ["DryRun", "Yes", "ask", "check_can_ask", "print_moves"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would move, without changing anything.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def check_can_ask(*, as_json: bool, yes: bool, dry_run: bool) -> None:
    """ConfigurationError if there would be a question beside JSON."""
    if as_json and not (dry_run or yes):
        raise ConfigurationError("--json does not prompt; add --yes to move the group, or --dry-run")


def ask(question: str, *, yes: bool) -> None:
    """End the command with exit code 1 unless the user agrees; `yes` is an answer given before."""
    if not yes and not typer.confirm(question, err=True):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(ExitCode.FAILED)


def print_moves(group: str, moves: Sequence[PositionMove], warnings: Sequence[str], *, dry_run: bool) -> None:
    """The warnings, and the moves as a table; a line if nothing moves."""
    from tubeclient_cli.common.tables import print_rows

    for warning in warnings:
        typer.echo(one_line(f"warning: {warning}"))
    console = table_console()
    rows = [move.row() for move in moves]
    if not rows:
        console.print(f"{group} already has these positions, nothing moves", soft_wrap=True)
        return
    console.print(f"{group}{', a dry run' if dry_run else ''}; messages skipped (below 0: read again):")
    print_rows(console, rows)
