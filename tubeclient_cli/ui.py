"""`tubeclient ui`: its arguments. Imports nothing heavy until it runs."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient.keys import joined_address
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, check_address, further_options, of_environment, settings_of
from tubeclient_cli.common.terminal import FurtherOptions, TimeZone, clear_errors, until_interrupted

_LIMITS = {"rpcTimeout": "5s", "retryLimit": "10s"}
"""Shorter than a query's: somebody waits."""
_LOOPBACK = "127.0.0.1", "localhost", "::1"


def ui(
    settings: Annotated[
        Path | None, typer.Option(help="An ingest job's TOML file, for a view of the job. It has the masters too.")
    ] = None,
    master_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...",
            help="The cluster's masters. Default: the settings file's, otherwise TUBECLIENT_MASTER_SERVERS of the "
            "environment.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="P", help="The port to listen on; 0: any free one.")] = 8720,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; others than this machine's have no TLS.")
    ] = _LOOPBACK[0],
    public_url: Annotated[
        str, typer.Option(metavar="URL", help="The page's address behind a proxy, which takes its path off.")
    ] = "",
    trusted_proxy: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Believe the X-Forwarded headers of requests from there.")
    ] = "",
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Let the page move groups. Without it nothing can be changed.")
    ] = False,
    mask: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD|/PATTERN/", help="Hide this in all messages; may be given several times."),
    ] = None,
    without_messages: Annotated[
        bool, typer.Option("--without-messages", help="Show no messages, only the cluster and groups.")
    ] = False,
    audit: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="InLong's audit-service, to show what DataProxy sent beside a job's counts.",
        ),
    ] = None,
    time_zone: TimeZone = "UTC",
    option: FurtherOptions = None,
) -> None:
    """Show the cluster, its groups and its messages in a browser, until Ctrl-C.

    It prints a link with a token, which the first request needs. No position
    moves by looking: it reads under the names tubeclient_ui-r0 to -r7.

    Example:

      tubeclient ui --settings conf/ingest.toml --mask password
    """
    with clear_errors("ui"):
        with brought_by("ui"):
            import jinja2  # noqa: F401
            import pyarrow  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn
        from spark_source.options.access import client_settings
        from spark_source.options.given import parse_options
        from tubeclient.admin.inlong_audit import AuditService
        from tubeclient.wire.message_time import zone_named
        from tubeclient_ui.app import Options, Page
        from tubeclient_ui.job import JobFile
        from tubeclient_ui.masks import Masks
        from tubeclient_ui.security import Guard

        zone = zone_named(time_zone)
        check_address("--host", host)
        public = urlsplit(public_url)
        if public_url and (public.scheme not in ("http", "https") or not public.netloc):
            raise ConfigurationError(f"--public-url is {public_url!r}; write it as https://tube.example.com/ui")
        job, given = None, further_options(option)
        if audit is not None and settings is None:
            raise ConfigurationError("--audit needs the --settings of a job")
        if settings is not None:
            with brought_by("spark"):
                import pyspark  # noqa: F401

            service = None if audit is None else AuditService(audit, zone)
            more = {"master_servers": master_servers, "source_options": given}
            job = JobFile(settings, more, of_environment(), service)
            client = client_settings(parse_options(job.settings(**_LIMITS).options("earliest")))
        elif masters := master_servers or of_environment().get("master_servers"):
            client = settings_of(str(masters), {**_LIMITS, **given})
        else:
            raise ConfigurationError(f"--master-servers is missing; give it, or --settings, or set {MASTERS_VARIABLE}")
        options = Options(zone, Masks(mask or []), allow_changes, not without_messages, job)
        listening = _listening(host, port)
        port = listening.getsockname()[1]
        names = {joined_address(name, port) for name in (host, *_LOOPBACK)} | {public.netloc.lower()}
        page = Page(client, options)
        token = secrets.token_urlsafe(32)
        app = Guard(
            page.app,
            token,
            names - {""} if public_url or host in _LOOPBACK else None,
            public_url,
            f"tubeclient_ui_{port}",
        )
        config = uvicorn.Config(
            app,
            access_log=False,  # it has the token
            log_level="warning",
            lifespan="off",
            ws="none",
            proxy_headers=bool(trusted_proxy),
            forwarded_allow_ips=trusted_proxy,
            root_path=public.path.rstrip("/"),
            server_header=False,
            h11_max_incomplete_event_size=1 << 18,  # an address has all that a view shows
            timeout_graceful_shutdown=2,
        )
        where = public_url.rstrip("/") or f"http://{joined_address(host, port)}"
        typer.echo(f"the page is at {where}/cluster?token={token}\nCtrl-C ends it")
        with contextlib.closing(page), until_interrupted():
            uvicorn.Server(config).run([listening])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(100)  # whoever sees the link may open it
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"{host}:{port} is not free: {error.strerror}; give another --port") from None
    return listening
