"""Output of the commands: tables as wide as the terminal, one JSON object, one line for an error."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "AsJson",
    "FurtherOptions",
    "SparkConf",
    "SparkMaster",
    "StorageOptions",
    "clear_errors",
    "print_json",
    "table_console",
]

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


@contextlib.contextmanager
def clear_errors(command: str) -> Iterator[None]:
    """Print errors of the user, an offsets table or the cluster as one line, with exit code 2."""
    from offsets_store import OffsetsTableError
    from tubeclient.errors import TubeError

    try:
        yield
    except (TubeError, OffsetsTableError) as error:
        typer.echo(f"tubeclient {command}: {error}", err=True)
        raise typer.Exit(2) from None
