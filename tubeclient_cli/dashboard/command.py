"""`tubeclient dashboard`: its arguments, and what the page shows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import Masters
from tubeclient_cli.common.listening import check_address
from tubeclient_cli.common.offsets_tables import table_at
from tubeclient_cli.common.pairs import pairs
from tubeclient_cli.common.signals import until_interrupted
from tubeclient_cli.common.terminal import FurtherOptions, StorageOptions, TimeZone, clear_errors, named_group

__all__ = ["dashboard"]


def dashboard(
    offsets_table: Annotated[
        str, typer.Option(metavar="PATH", help="The Delta table that keeps the groups' positions.")
    ],
    master_servers: Masters,
    consumer_group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this group; may be given several times.", parser=named_group),
    ] = None,
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on. Whoever reaches it can read the page.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")] = 8717,
    option: FurtherOptions = None,
    time_zone: TimeZone = "UTC",
    storage_option: StorageOptions = None,
) -> None:
    """Serve a page that shows how the groups of an offsets table do, as `offsets status`.

    Open the printed address in a browser. Ctrl-C ends it.

    The page changes nothing, loads nothing from elsewhere, and has no login:
    it listens on this machine only, unless you give --bind. From elsewhere
    run this, and open http://localhost:8717/:

      ssh -L 8717:127.0.0.1:8717 HOST

    Table and brokers are asked only while somebody looks at the page. If one
    of them does not answer, the page says so.

    Example:

      tubeclient dashboard --offsets-table /lake/_offsets \\
        --master-servers 10.0.0.1:8715
    """
    with clear_errors("dashboard"):
        from offsets_store.errors import scrub
        from tubeclient.conditions import said
        from tubeclient_cli.dashboard.page import PageServer, page_of
        from tubeclient_cli.offsets.display import status_json
        from tubeclient_cli.offsets.status import statuses

        check_address("--bind", bind)
        secrets = pairs("--storage-option", storage_option)
        table = table_at(offsets_table, storage_option, may_be_new=True)

        def look() -> str:
            groups: list[Mapping[str, Any]] = []
            failures: list[str] = []
            try:
                names = sorted(consumer_group or table.groups())
                for name, one in statuses(table, names, master_servers, option, time_zone=time_zone):
                    if isinstance(one, Exception):
                        failures.append(f"{name}: {said(one)}")
                    else:
                        groups.append(status_json(one))
            except Exception as error:  # whatever it is, the page says it
                failures.append(scrub(said(error) or type(error).__name__, secrets))
            return page_of(groups, failures, datetime.now(UTC))

        try:
            server = PageServer((bind, port), look)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {bind} port {port}: {error.strerror or error}; choose another --port or --bind"
            ) from None
        with server, until_interrupted():
            typer.echo(f"the dashboard is at {server.url}  (Ctrl-C ends it)")
            server.serve_forever()
