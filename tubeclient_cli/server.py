"""`tubeclient server`: the embedded cluster, as a process. Imports nothing heavy until it runs."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from errno import EADDRINUSE
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import check_address
from tubeclient_cli.common.terminal import clear_errors, stop_on_signals

if TYPE_CHECKING:
    from embedded_tubemq import EmbeddedTubeMQ, TopicConfig

_PAGES: Final = ("home", "search", "product", "basket", "checkout")


def server(
    data_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder for topics, messages and groups' positions.")
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:STORES[:PARTITIONS]]",
            help="A topic to create on every broker, with this many stores, and partitions per store (default: 1 and "
            "1); may be given several times. An existing topic may grow.",
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=0, help="Put N clicks, as JSON, into each --topic that is still empty.")
    ] = 0,
    brokers: Annotated[int, typer.Option(metavar="N", help="The number of brokers; their ids are 1 to N.")] = 1,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on. Anyone who can reach it can do anything.")
    ] = "127.0.0.1",
    master_port: Annotated[int, typer.Option(metavar="P", help="The master's port; 0: any free port.")] = 0,
    master_web_port: Annotated[int, typer.Option(metavar="P", help="The master's HTTP port; 0: any free port.")] = 0,
    broker_port: Annotated[int, typer.Option(metavar="P", help="Broker n listens on P+n-1; 0: any free ports.")] = 0,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all addresses to this file, as JSON, when the server is ready. The file is removed at the end.",
        ),
    ] = None,
) -> None:
    """Run an embedded TubeMQ, a master and brokers in one process, until Ctrl-C.

    The server speaks TubeMQ's wire protocol, without replication or users: use
    it for tests, demos and benchmarks. EmbeddedTubeMQ in Python also has TLS
    and users. The server listens only on this machine unless --host says
    otherwise. When it is ready, it prints its addresses; scripts can use
    --ready-file. To change topics, use embedded as the confModAuthToken.

    The data directory keeps topics, messages and positions for the next start.
    A port given as 0 differs on each start. Ctrl-C or SIGTERM ends the server
    cleanly, with exit code 0.

    Example:

      tubeclient server --data-dir demo-data --topic flights:2:4
    """
    with clear_errors("server"):
        from embedded_tubemq import EmbeddedTubeMQ, TopicConfig

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
        # A page of offsets creates as many short-lived objects as there are partitions. With Python's default of 700,
        # the garbage collector would scan all objects several times per page.
        gc.set_threshold(100_000, 50, 100)
        # First: a signal during the start must also stop cleanly.
        stop = threading.Event()
        stop_on_signals(stop)
        try:
            cluster.start()
        except OSError as error:
            hint = "; stop the program that listens there, or use another port" if error.errno == EADDRINUSE else ""
            raise ConfigurationError(f"{error}{hint}") from None
        try:
            _load_sample(cluster, topics, sample)
            _announce(cluster, ready_file)
            # Short waits let signal handlers run soon on every platform.
            while not stop.wait(0.2):
                pass
        finally:
            if ready_file is not None:
                ready_file.unlink(missing_ok=True)
            cluster.stop()


def _load_sample(cluster: EmbeddedTubeMQ, topics: Sequence[TopicConfig], count: int) -> None:
    """Put `count` clicks, as JSON with the present time, into each of these topics that has no message yet: to all
    partitions of all brokers in turn."""
    from embedded_tubemq.storage.store import NewMessage
    from tubeclient.keys import MAX_STORE_PARTITIONS
    from tubeclient.wire.payload import encode_attributes, encode_payload

    for topic in topics if count else ():
        stores = sorted({partition // MAX_STORE_PARTITIONS for partition in topic.partition_ids()})
        places = [(broker, store) for broker in cluster.broker_ids for store in stores]
        if any(cluster.bounds(topic.name, store_id=store, broker_id=broker).max_offset for broker, store in places):
            continue
        attributes = encode_attributes({}, time=f"{datetime.now(UTC):%Y%m%d%H%M}")
        partitions = [(broker, partition) for partition in topic.partition_ids() for broker in cluster.broker_ids]
        for broker in cluster.broker_ids:
            messages = []
            for number in range(count):
                its_broker, partition = partitions[number % len(partitions)]
                if its_broker == broker:
                    click = {"id": number, "user": f"u{number * 7 % 50}", "page": _PAGES[number * 3 % len(_PAGES)]}
                    messages.append(NewMessage(partition, *encode_payload(json.dumps(click).encode(), attributes)))
            cluster.load(topic.name, messages, broker_id=broker)


def _announce(cluster: EmbeddedTubeMQ, ready_file: Path | None) -> None:
    """Say where it listens."""
    from embedded_tubemq.storage.layout import write_atomically

    brokers = [
        {"brokerId": number, "address": address, "webPort": cluster.broker_web_ports[number]}
        for number, address in cluster.broker_addresses.items()
    ]
    master, web_port = cluster.master_address, cluster.master_web_port
    if ready_file is not None:
        addresses = {"master": master, "masterWebPort": web_port, "brokers": brokers}
        try:
            write_atomically(ready_file, json.dumps(addresses).encode())
        except OSError as error:
            reason = error.strerror or error
            raise ConfigurationError(f"--ready-file {ready_file} cannot be written: {reason}") from None
    typer.echo("embedded TubeMQ is ready; Ctrl-C ends it")
    typer.echo(f"  master    {master}, web port {web_port}")
    for broker in brokers:
        typer.echo(f"  broker {broker['brokerId']:<2} {broker['address']}, web port {broker['webPort']}")
    typer.echo(f"for clients: --master-servers {master} --option masterWebPort={web_port}")
