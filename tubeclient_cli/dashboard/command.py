"""`tubeclient dashboard`: its arguments. Imports nothing heavy until the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE
from tubeclient_cli.common.listening import check_address
from tubeclient_cli.common.pairs import further_options, pairs
from tubeclient_cli.common.signals import until_interrupted
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    FurtherOptions,
    StorageOptions,
    clear_errors,
    named_group,
    print_json,
)

__all__ = ["dashboard"]

_FLAGS = {"offsetstable": "--offsets-table"}


def dashboard(
    offsets_table: Annotated[
        str, typer.Option(metavar="PATH", help="The Delta table that keeps the groups' positions.")
    ],
    master_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            envvar=MASTERS_VARIABLE,
            help="The cluster's masters. Adds the present lag, the brokers, and the groups' clients.",
        ),
    ] = None,
    consumer_group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this group; may be given several times.", parser=named_group),
    ] = None,
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on. Whoever reaches it can read the page.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")] = 8717,
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Serve a page that shows how the groups of an offsets table do.

    Which group is not well and why; messages behind and messages per second
    over time; which node reads which partition; brokers. Open the printed
    address in a browser. Ctrl-C ends it.

    The page changes nothing, loads nothing from elsewhere, and has no login:
    it listens on this machine only, unless you give --bind. From elsewhere
    run this, and open http://localhost:8717/:

      ssh -L 8717:127.0.0.1:8717 HOST

    Table and brokers are asked only while somebody looks at the page. If one
    of them does not answer, the page says so. A table that is not there yet
    may come later. --json prints the page's data once and exits.

    Example:

      tubeclient dashboard --offsets-table /lake/_offsets \\
        --master-servers 10.0.0.1:8715
    """
    with clear_errors("dashboard"):
        from tubeclient_cli.common.cluster import settings_of
        from tubeclient_cli.dashboard.looking import Watcher
        from tubeclient_cli.dashboard.model import dashboard_json
        from tubeclient_cli.dashboard.server import PageServer

        check_address("--bind", bind)
        given = further_options(option, _FLAGS)
        if given and master_servers is None:
            raise ConfigurationError("--option is for the connection to the cluster; add --master-servers")
        watcher = Watcher(
            offsets_table,
            pairs("--storage-option", storage_option),
            None if master_servers is None else settings_of(master_servers, given),
            groups=consumer_group or (),
        )
        if json:
            facts = watcher.look()
            print_json(dashboard_json(facts))
            raise typer.Exit(ExitCode.UNREACHABLE if facts.failures else ExitCode.DONE)
        try:
            server = PageServer((bind, port), watcher.facts)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {bind} port {port}: {error.strerror or error}; choose another --port or --bind"
            ) from None
        watcher.start()
        with server, until_interrupted():
            typer.echo(f"the dashboard is at {server.url}  (Ctrl-C ends it)")
            server.serve_forever()
