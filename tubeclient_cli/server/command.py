"""`tubeclient server`: its arguments. Imports nothing heavy until it runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tubeclient_cli.common.terminal import clear_errors

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
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on. Whoever reaches it may do everything.")
    ] = "127.0.0.1",
    master_port: Annotated[int, typer.Option(metavar="P", help="The master's port; 0: any free one.")] = 0,
    master_web_port: Annotated[int, typer.Option(metavar="P", help="The master's HTTP port; 0: any free one.")] = 0,
    broker_port: Annotated[int, typer.Option(metavar="P", help="Broker n listens on P+n-1; 0: any free ones.")] = 0,
    ready_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all addresses to this file when ready, as JSON; removed at the end."),
    ] = None,
) -> None:
    """Run an embedded TubeMQ, a master and brokers in one process, until Ctrl-C.

    It speaks TubeMQ's wire protocol and has neither replication nor users: use
    it for tests, demos and benchmarks. EmbeddedTubeMQ in Python has TLS and
    users too. It listens on this machine alone unless --host says
    otherwise. It prints where once it is ready; --ready-file is for scripts.
    The confModAuthToken that changes of topics need is embedded.

    The data directory keeps topics, messages and positions for the next start.
    A port that was given as 0 is another one then. Ctrl-C or SIGTERM end it
    cleanly, with exit code 0.

    Example:

      tubeclient server --data-dir demo-data --topic flights:2:4
    """
    with clear_errors("server"):
        from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
        from tubeclient_cli.common.cluster import check_address
        from tubeclient_cli.server.serving import load_sample, serve

        check_address("--host", host)
        topics = [TopicConfig.parse(text) for text in topic or []]
        cluster = EmbeddedTubeMQ(
            data_dir,
            topics,
            brokers,
            host=host,
            master_port=master_port,
            master_web_port=master_web_port,
            broker_port=broker_port,
        )
        serve(cluster, ready_file, fill=partial(load_sample, cluster, topics, sample))
