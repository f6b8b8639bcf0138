"""Consumers of a group without Spark: they go on where the offsets table has the group, and record in it how far they
came. So a Spark query and such consumers can hand the group to each other.

    python jobs/consume_from_table.py --master-servers 10.0.0.1:8715 --consumer-group clicks_etl --topic clicks \
        --offsets-table /lake/_offsets --source-count 2 --node-id 0

Start one process for each node from 0 to source-count - 1. It prints a line for each message, until SIGINT or SIGTERM.
A process that is killed has confirmed up to a second more than it recorded: whoever follows by the table reads that
again.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import Annotated

import typer

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError, PartitionProgress, SharedRun, SupersededRun
from tubeclient import ClientBalanceConsumer, ClientSettings, Delivery, PartitionKey, assign
from tubeclient.settings import parse_master_servers

__all__ = ["consume"]

_log = logging.getLogger(__name__)

# As long as a master waits for a client that was killed.
_TAKE_MS = 40_000
_STEP_MS = 250


def consume(
    settings: ClientSettings,
    table: OffsetsTable,
    consumer_group: str,
    topics: Collection[str],
    *,
    source_count: int,
    node_id: int,
    handle: Callable[[Delivery], object],
    stop: threading.Event,
    record_every_s: float = 1.0,
) -> None:
    """Hand the packs of this node's partitions to `handle`, and confirm and record each that it is done with.

    Begins where the table has the group; a partition that the table does not know where the broker has the group, else
    at its beginning. Ends when `stop` is set, with everything recorded that was confirmed. Raises SupersededRun where
    something else took the group over in the table, such as a Spark query or a reset; TubeError, OffsetsTableError, and
    what `handle` raises: what was confirmed since the last record is read again by whoever follows then.
    """
    with ClientBalanceConsumer(
        settings, consumer_group, topics, source_count=source_count, node_id=node_id, start_from="earliest"
    ) as consumer:
        # Not before the master has let this client in: the group is nobody else's now.
        run = table.share_run(GroupKey(consumer_group, topics), source_count)
        _take(consumer, table, assign("modulo", consumer.partitions(), source_count)[node_id])
        _record(consumer, run)
        recorded_at = time.monotonic()
        while not stop.is_set():
            delivery = consumer.get(timeout_ms=_STEP_MS)
            if delivery is not None:
                handle(delivery)
                consumer.confirm(delivery)
            if time.monotonic() >= recorded_at + record_every_s:
                try:
                    _record(consumer, run)
                except SupersededRun:
                    raise
                except OffsetsTableError as error:
                    _log.warning("the offsets table was not written, it stays behind and is tried again: %s", error)
                recorded_at = time.monotonic()
        # Before the partitions are given back, so that the next owner finds it.
        _record(consumer, run)


def _take(consumer: ClientBalanceConsumer, table: OffsetsTable, partitions: Collection[PartitionKey]) -> None:
    """Connect the partitions, each where the group goes on."""
    for partition in partitions:
        consumer.connect(partition, timeout_ms=_TAKE_MS)
    # Not before they are taken: until then their former owner may record.
    positions = table.positions(consumer.consumer_group, consumer.topics)
    for partition in positions.keys() & set(partitions):
        consumer.connect(partition, positions[partition])


def _record(consumer: ClientBalanceConsumer, run: SharedRun) -> None:
    run.record(
        [
            PartitionProgress(partition, position.confirmed, position.end, consumer.node_id)
            for partition, position in consumer.positions().items()
        ]
    )


def main(
    master_servers: Annotated[str, typer.Option(metavar="HOST:PORT,...")],
    consumer_group: Annotated[str, typer.Option(metavar="NAME")],
    topic: Annotated[list[str], typer.Option(metavar="NAME", help="May be given several times.")],
    offsets_table: Annotated[str, typer.Option(metavar="PATH")],
    source_count: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes of the group.")] = 1,
    node_id: Annotated[int, typer.Option(metavar="I", min=0, help="Which of them this is.")] = 0,
    master_web_port: Annotated[int, typer.Option(metavar="PORT")] = 8080,
) -> None:
    """Print a group's messages from where the offsets table has it, and record in it how far that came."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def show(delivery: Delivery) -> None:
        for body in delivery.bodies:
            sys.stdout.buffer.write(bytes(body) + b"\n")
        sys.stdout.buffer.flush()

    consume(
        ClientSettings(parse_master_servers(master_servers), master_web_port=master_web_port),
        OffsetsTable(offsets_table),
        consumer_group,
        topic,
        source_count=source_count,
        node_id=node_id,
        handle=show,
        stop=stop,
    )


if __name__ == "__main__":
    typer.run(main)
