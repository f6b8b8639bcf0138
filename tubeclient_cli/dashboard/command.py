"""`tubeclient dashboard`: its arguments. Imports nothing heavy until the command runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE
from tubeclient_cli.common.listening import check_address
from tubeclient_cli.common.pairs import further_options, pairs
from tubeclient_cli.common.terminal import (
    AsJson,
    ExitCode,
    FurtherOptions,
    StorageOptions,
    clear_errors,
    named_group,
    print_json,
    tell,
)

if TYPE_CHECKING:
    from tubeclient_cli.dashboard.gather import Gatherer

__all__ = ["dashboard"]

_FLAGS = {"offsetstable": "--offsets-table"}
_JSON_WAIT_S = 30.0
_HISTORY_S = 2.0


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
    bad_records: Annotated[
        str | None, typer.Option(metavar="PATH", help="The table of `ingest --bad-records`; its counts are shown.")
    ] = None,
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on. Whoever reaches it can read the page.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")] = 8717,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A name under which browsers reach the page, besides localhost and addresses."
        ),
    ] = None,
    commits: Annotated[
        int, typer.Option(metavar="N", min=1, max=5000, help="How many of each group's last commits to show.")
    ] = 200,
    refresh: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Look at table and cluster at most this often.")
    ] = 5.0,
    option: FurtherOptions = None,
    storage_option: StorageOptions = None,
    json: AsJson = False,
) -> None:
    """Serve a page that shows how the groups of an offsets table do.

    Which group is not well and why; messages behind and messages per second
    over time; which node reads which partition; what moved, when and why; brokers;
    bad records. Open the printed address in a browser. Ctrl-C ends it.

    The page changes nothing, loads nothing from elsewhere, and has no login:
    it listens on this machine only, unless you give --bind. From elsewhere
    run this, and open http://localhost:8717/:

      ssh -L 8717:127.0.0.1:8717 HOST

    Table and brokers are asked at the start, and then only while somebody
    looks at the page. If one of them does not answer, the page says so, and
    how old its data is. A table that is not there yet may come later.

    Examples:

      tubeclient dashboard --offsets-table /lake/_offsets \\
        --master-servers 10.0.0.1:8715 --bad-records /lake/_bad_records

      tubeclient dashboard --offsets-table s3://lake/_offsets --json

    --json prints the page's data once and exits.
    """
    with clear_errors("dashboard"):
        from tubeclient_cli.common.cluster import settings_of
        from tubeclient_cli.dashboard.gather import Gatherer
        from tubeclient_cli.dashboard.model import dashboard_json
        from tubeclient_cli.dashboard.server import PageServer

        check_address("--bind", bind)
        given = further_options(option, _FLAGS)
        if given and master_servers is None:
            raise ConfigurationError("--option is for the connection to the cluster; add --master-servers")
        gatherer = Gatherer(
            offsets_table,
            pairs("--storage-option", storage_option),
            None if master_servers is None else settings_of(master_servers, given),
            groups=consumer_group or (),
            bad_records=bad_records,
            most_commits=commits,
            history_s=_JSON_WAIT_S / 2 if json else _HISTORY_S,
            period_s=refresh,
        )
        if json:
            facts = gatherer.facts(_JSON_WAIT_S)
            print_json(dashboard_json(facts))
            if any(source.failure is not None for source in facts.sources):
                raise typer.Exit(ExitCode.UNREACHABLE)
            return
        try:
            server = PageServer((bind, port), gatherer.facts, host_name or ())
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {bind} port {port}: {error.strerror or error}; choose another --port or --bind"
            ) from None
        with server:
            typer.echo(f"the dashboard is at {server.url}  (Ctrl-C ends it)")
            # It serves meanwhile. A table that is not there may come: its job may start later.
            threading.Thread(target=_warn, args=(gatherer,), name="tubeclient-dashboard-first", daemon=True).start()
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                typer.echo("ended", err=True)


def _warn(gatherer: Gatherer) -> None:
    """Say on the terminal what cannot be read now."""
    for name, place, _, failure in gatherer.facts(_JSON_WAIT_S).sources:
        if failure is not None:
            tell(f"warning: {name} {place}: {failure}")
