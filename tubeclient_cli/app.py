"""The command `tubeclient`. Imports nothing heavy until a command runs."""

from __future__ import annotations

from typing import Annotated

from tubeclient.extras import brought_by

with brought_by("cli"):
    import rich  # noqa: F401
    import typer

from tubeclient._version import __version__
from tubeclient_cli.audit.command import audit
from tubeclient_cli.bad_records import bad_records_app
from tubeclient_cli.common.terminal import Program, plain_help
from tubeclient_cli.consume.command import consume
from tubeclient_cli.doctor import doctor
from tubeclient_cli.groups import groups_app
from tubeclient_cli.ingest.command import ingest
from tubeclient_cli.offsets.command import offsets_app
from tubeclient_cli.produce.command import produce
from tubeclient_cli.server import server
from tubeclient_cli.topics import topics_app
from tubeclient_cli.ui import ui

__all__ = ["app", "ingest", "main"]

app = Program(name="tubeclient", help="Work with Apache InLong TubeMQ from Spark.", no_args_is_help=True)
app.add_typer(bad_records_app)
app.add_typer(groups_app)
app.add_typer(offsets_app)
app.add_typer(topics_app)
app.command()(ingest)
app.command()(produce)
app.command()(consume)
app.command()(audit)
app.command()(server)
app.command()(doctor)
app.command()(ui)
plain_help(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pyspark-tubeclient {__version__}")
        raise typer.Exit


@app.callback()
def _tubeclient(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Work with Apache InLong TubeMQ from Spark."""


def main() -> None:
    """The entry point of the console command."""
    app()


if __name__ == "__main__":
    main()
