"""`tubeclient server`: its arguments. Imports nothing heavy until it runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tubeclient_cli.common.terminal import AsJson, clear_errors

__all__ = ["server"]


def server(
    data_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Where topics, messages and groups' positions are kept.")
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:STORES[:PARTITIONS]]",
            help="A topic of every broker, with that many stores, and partitions per store (default 1 and 1); may be "
            "given several times. An existing topic may grow.",
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=0, help="Put N clicks, as JSON, into each --topic that has no message yet.")
    ] = 0,
    brokers: Annotated[int, typer.Option(metavar="N", help="How many brokers; their ids are 1 to N.")] = 1,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a --host that other machines can reach.")
    ] = False,
    master_port: Annotated[int, typer.Option(metavar="P", help="The master's port; 0: any free one.")] = 0,
    master_web_port: Annotated[int, typer.Option(metavar="P", help="The master's HTTP port; 0: any free one.")] = 0,
    broker_port: Annotated[int, typer.Option(metavar="P", help="Broker n listens on P+n-1; 0: any free ones.")] = 0,
    token: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The confModAuthToken that changes of topics need (default: embedded)."),
    ] = None,
    user_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Lines NAME:PASSWORD: clients must sign as one of these users (default: no authentication).",
        ),
    ] = None,
    check_visit_token: Annotated[
        bool, typer.Option("--check-visit-token", help="Brokers require the token that the master gives its clients.")
    ] = False,
    tls_certificate: Annotated[
        str | None, typer.Option(metavar="PEM", help="Listen on further ports with TLS, with this certificate.")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(metavar="PEM", help="Its key, unencrypted (default: in the certificate's file).")
    ] = None,
    tls_client_ca: Annotated[
        str | None,
        typer.Option(metavar="PEM", help="Clients over TLS need a certificate that one of these has signed."),
    ] = None,
    master_tls_port: Annotated[int, typer.Option(metavar="P", help="The master's port for TLS; 0: any free one.")] = 0,
    broker_tls_port: Annotated[int, typer.Option(metavar="P", help="Broker n's is P+n-1; 0: any free ones.")] = 0,
    ready_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all addresses to this file when ready, as JSON; removed at the end."),
    ] = None,
    log_level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="debug, info, warning or error; the log goes to standard error.",
            autocompletion=lambda: ["debug", "info", "warning", "error"],
        ),
    ] = "warning",
    json: AsJson = False,
) -> None:
    """Run an embedded TubeMQ, a master and brokers in one process, until Ctrl-C.

    It speaks TubeMQ's wire protocol and has no replication: use it for tests,
    demos and benchmarks. It listens on this machine alone unless --host says
    otherwise. It prints where once it is ready; with --json that is one line.

    The data directory keeps topics, messages and positions for the next start.
    A port that was given as 0 is another one then. Ctrl-C or SIGTERM end it
    cleanly, with exit code 0.

    Example:

      tubeclient server --data-dir demo-data --topic flights:2:4
    """
    with clear_errors("server"):
        from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ, TopicConfig
        from tubeclient_cli.common.listening import check_address
        from tubeclient_cli.server.sample import load_sample
        from tubeclient_cli.server.serving import check_host, read_users, serve, tls_of

        check_address("--host", host)
        if not allow_remote:
            check_host(host)
        topics = [TopicConfig.parse(text) for text in topic or []]
        cluster = EmbeddedTubeMQ(
            data_dir,
            topics,
            brokers,
            host=host,
            master_port=master_port,
            master_web_port=master_web_port,
            broker_port=broker_port,
            token=DEFAULT_TOKEN if token is None else token,
            users=None if user_file is None else read_users(user_file),
            tls=tls_of(tls_certificate, tls_key, tls_client_ca, master_tls_port, broker_tls_port),
            check_visit_token=check_visit_token,
        )
        serve(cluster, log_level, ready_file, as_json=json, fill=partial(load_sample, cluster, topics, sample))
