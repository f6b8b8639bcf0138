"""How positions move, and the questions before: for people and for scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient_cli.common.terminal import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DryRun", "PositionMove", "Yes", "ask", "check_can_ask", "print_moves"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would move, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class PositionMove(NamedTuple):
    """One partition; index offsets, None if there is no position."""

    partition: PartitionKey
    start: int | None
    end: int | None

    def row(self) -> dict[str, Any]:
        """For JSON and tables. `rowsAtMost` lie between, less than 0 for a move back; None if one side is unknown."""
        known = None if self.start is None or self.end is None else (self.end - self.start) // INDEX_ENTRY_BYTES
        return {"partition": str(self.partition), "from": self.start, "to": self.end, "rowsAtMost": known}


def check_can_ask(*, as_json: bool, yes: bool, dry_run: bool) -> None:
    """ConfigurationError if there would be a question beside JSON."""
    if as_json and not (dry_run or yes):
        raise ConfigurationError("--json does not prompt; add --yes to move the group, or --dry-run")


def ask(question: str, *, yes: bool) -> None:
    """End the command with exit code 1 unless the user agrees; `yes` is an answer given before."""
    if not yes and not typer.confirm(question, err=True):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(ExitCode.FAILED)


def print_moves(console: Console, group: str, moves: Iterable[PositionMove], *, dry_run: bool) -> None:
    """The moves as a table; a line if nothing moves."""
    from tubeclient_cli.common.tables import print_rows

    rows = [move.row() for move in moves]
    if not rows:
        console.print(f"{group} has these positions already, nothing moves", soft_wrap=True)
        return
    console.print(f"{group}{', a dry run' if dry_run else ''}; rows are skipped, or read again if below 0:")
    print_rows(console, rows)
