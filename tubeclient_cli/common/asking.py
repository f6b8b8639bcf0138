"""Questions before a change, and how to do without them."""

from __future__ import annotations

from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.terminal import ExitCode

__all__ = ["DryRun", "Yes", "ask", "check_can_ask"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would move, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def check_can_ask(*, as_json: bool, yes: bool, dry_run: bool) -> None:
    """ConfigurationError if there would be a question beside JSON."""
    if as_json and not (dry_run or yes):
        raise ConfigurationError("--json does not prompt; add --yes to move the group, or --dry-run")


def ask(question: str, *, yes: bool) -> None:
    """End the command with exit code 1 unless the user agrees; `yes` is an answer given before."""
    if not yes and not typer.confirm(question, err=True):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(ExitCode.FAILED)
