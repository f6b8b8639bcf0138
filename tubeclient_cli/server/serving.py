"""Runs an embedded cluster until a signal stops it, and says where it listens."""

from __future__ import annotations

import gc
import json
import signal
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from errno import EADDRINUSE
from pathlib import Path
from typing import Any, Final

import typer

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_STORE_PARTITIONS
from tubeclient.wire.payload import encode_attributes, encode_payload

__all__ = ["load_sample", "serve"]

_PAGES: Final = ("home", "search", "product", "basket", "checkout")


def load_sample(cluster: EmbeddedTubeMQ, topics: Sequence[TopicConfig], count: int) -> None:
    """Put `count` clicks, as JSON with the present time, into each of these topics that has no message yet: to all
    partitions of all brokers in turn."""
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


def serve(cluster: EmbeddedTubeMQ, ready_file: Path | None, *, fill: Callable[[], None]) -> None:
    """Run until SIGINT or SIGTERM; `fill` is called before it is said to be ready. ConfigurationError if it cannot
    start, OSError if a disk is full later or nobody takes the output."""
    # A page of offsets creates as many short-lived objects as there are partitions. With Python's default of 700, the
    # garbage collector would scan all objects several times per page.
    gc.set_threshold(100_000, 50, 100)
    # Install the handlers first: a signal during the start must also stop cleanly.
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        cluster.start()
    except OSError as error:
        hint = "; end the program that listens there, or give another port" if error.errno == EADDRINUSE else ""
        raise ConfigurationError(f"{error}{hint}") from None
    try:
        fill()
        _announce(cluster, ready_file)
        # Short waits let signal handlers run soon on every platform.
        while not stopped.wait(0.2):
            pass
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
        cluster.stop()


def _announce(cluster: EmbeddedTubeMQ, ready_file: Path | None) -> None:
    from embedded_tubemq.storage.store import write_atomically

    addresses = _addresses(cluster)
    if ready_file is not None:
        try:
            write_atomically(ready_file, json.dumps(addresses).encode())
        except OSError as error:
            reason = error.strerror or error
            raise ConfigurationError(f"--ready-file {ready_file} cannot be written: {reason}") from None
    typer.echo("embedded TubeMQ is ready; Ctrl-C ends it")
    typer.echo(f"  master    {addresses['master']}, web port {addresses['masterWebPort']}")
    for broker in addresses["brokers"]:
        typer.echo(f"  broker {broker['brokerId']:<2} {broker['address']}, web port {broker['webPort']}")
    typer.echo(f"for clients: --master-servers {addresses['master']} --option masterWebPort={cluster.master_web_port}")


def _addresses(cluster: EmbeddedTubeMQ) -> dict[str, Any]:
    brokers: list[dict[str, object]] = [
        {"brokerId": broker_id, "address": address, "webPort": cluster.broker_web_ports[broker_id]}
        for broker_id, address in cluster.broker_addresses.items()
    ]
    return {"master": cluster.master_address, "masterWebPort": cluster.master_web_port, "brokers": brokers}
