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

__all__ = ["DryRun", "PositionMove", "Yes", "ask", "check_can_ask", "moves_json", "print_moves"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would move, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class PositionMove(NamedTuple):
    """One partition; index offsets, None if there is no position."""

    partition: PartitionKey
    start: int | None
    end: int | None

    @property
    def rows(self) -> int | None:
        """The most rows that lie between; negative for a move back, None if one side is unknown."""
        return None if self.start is None or self.end is None else (self.end - self.start) // INDEX_ENTRY_BYTES


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
    from tubeclient_cli.common.tables import number, print_table

    cells = []
    for move in moves:
        end = "none: read from its beginning" if move.end is None else number(move.end)
        said = f"{abs(move.rows):,} {'skipped' if move.rows > 0 else 'again'}" if move.rows else ""
        cells.append((str(move.partition), "none" if move.start is None else number(move.start), end, said))
    if not cells:
        console.print(f"{group} has these positions already, nothing moves", soft_wrap=True)
        return
    console.print(f"{group}{', a dry run' if dry_run else ''}:", soft_wrap=True)
    numbers = ("from", "to", "rows, at most")
    print_table(console, ("partition", *numbers), cells, keys=("partition",), right=numbers)


def moves_json(moves: Iterable[PositionMove]) -> list[dict[str, Any]]:
    return [
        {"partition": str(one.partition), "from": one.start, "to": one.end, "rowsAtMost": one.rows} for one in moves
    ]
