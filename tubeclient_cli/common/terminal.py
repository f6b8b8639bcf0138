"""Output of the commands: tables as wide as the terminal, one JSON object, one line for an error, and exit codes."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "EXIT_CODES",
    "AsJson",
    "ExitCode",
    "FurtherOptions",
    "SparkConf",
    "SparkMaster",
    "StorageOptions",
    "Unreachable",
    "clear_errors",
    "exit_code",
    "print_json",
    "show_exit_codes",
    "table_console",
]


class ExitCode(IntEnum):
    """How every command ends."""

    DONE = 0
    FAILED = 1
    """The work failed, or the answer is that something is not well."""
    USAGE = 2
    """Wrong usage or settings, which the user can change."""
    UNREACHABLE = 3
    """The cluster, a table or Spark cannot be reached."""


EXIT_CODES = """Exit codes:

  0  done

  1  the work failed, or the answer is that something is not well

  2  wrong usage or settings

  3  the cluster, a table or Spark cannot be reached
"""
"""The end of each command's help. An empty line between two lines keeps them apart."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
FurtherOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A further option of the source to reach the cluster: masterWebPort=8080."),
]
SparkMaster = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark's master (default: all cores of this machine).")
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Access to the table's storage, never printed; better in the environment, as AWS_SECRET_ACCESS_KEY.",
    ),
]
SparkConf = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; may be given several times.")
]


def table_console() -> Console:
    """The console for tables."""
    from rich.console import Console

    # Files and pipes have no width, so nothing is cut there.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 250)


def print_json(document: dict[str, Any]) -> None:
    """One object on one line."""
    typer.echo(json.dumps(document))


class Unreachable(Exception):
    """A table or Spark that cannot be reached; the text is the line for the user."""


def exit_code(error: BaseException | None) -> ExitCode:
    """The exit code of an error of the cluster or of a table. One that a broker caused counts as its own."""
    import offsets_store.errors as tables
    from tubeclient import errors

    match error:
        case errors.BrokerFailed():
            return exit_code(error.__cause__)
        case (
            errors.ConfigurationError()
            | errors.AuthenticationFailed()
            | errors.GroupForbidden()
            | errors.NoSuchPartition()
            | errors.TopicNotDeployed()
            | errors.UnknownGroup()
            | tables.NoSuchCommit()
            | tables.RunAlive()
            | tables.SchemaMismatch()
            | tables.VersionGone()
        ):
            return ExitCode.USAGE
        case tables.CommitConflict() | tables.SupersededRun() | errors.CorruptMessage():
            return ExitCode.FAILED
        case (
            errors.TransportError()
            | errors.ProtocolError()
            | errors.StandbyMaster()
            | errors.ServerBusy()
            | errors.NotAvailable()
            | tables.OffsetsTableError()
            | Unreachable()
        ):
            return ExitCode.UNREACHABLE
    return ExitCode.FAILED


@contextlib.contextmanager
def clear_errors(command: str) -> Iterator[None]:
    """Print errors of the user, a table, Spark or the cluster as one line, and exit with their code."""
    from tubeclient.conditions import said

    try:
        yield
    except _told() as error:
        typer.echo(f"tubeclient {command}: {said(error)}", err=True)
        raise typer.Exit(exit_code(error)) from None


def _told() -> tuple[type[Exception], ...]:
    """Errors whose text is for the user."""
    from tubeclient.errors import TubeError

    # Its import takes long, and without it there is no error of it.
    tables = sys.modules.get("offsets_store.errors")
    return (TubeError, Unreachable) if tables is None else (TubeError, Unreachable, tables.OffsetsTableError)


def show_exit_codes(app: typer.Typer) -> None:
    """End the help of all commands of `app`, and of the apps in it, with the exit codes."""
    for command in app.registered_commands:
        command.epilog = EXIT_CODES
    for group in app.registered_groups:
        if group.typer_instance is not None:
            show_exit_codes(group.typer_instance)
