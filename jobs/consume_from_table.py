"""A consumer without Spark that continues at its group's position in an offsets table, and records its progress there.
So it can take turns with a Spark query.

    python jobs/consume_from_table.py --master-servers 10.0.0.1:8715 --consumer-group clicks_etl --topic clicks \
        --offsets-table /lake/_offsets

It reads all partitions and prints a line per message, until SIGINT or SIGTERM. It waits for a broker that is away. A
killed process has confirmed up to a second more than it recorded; its successor reads that again.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import Annotated

import typer

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError, PartitionProgress, SupersededRun
from spark_source.options.table_uris import check_folders
from tubeclient import (
    BootstrapOffset,
    ClientBalanceConsumer,
    ClientSettings,
    Delivery,
    NotAvailable,
    PartitionKey,
    StalePack,
    TubeError,
)
from tubeclient.settings import parse_master_servers
from tubeclient_cli.common.terminal import clear_errors, script_app, stop_on_signals

__all__ = ["consume"]

_log = logging.getLogger(__name__)

_PERIOD_S = 1.0
"""How often the progress is recorded, and partitions that are new or were lost are taken."""


def consume(
    settings: ClientSettings,
    table: OffsetsTable,
    consumer_group: str,
    topics: Collection[str],
    *,
    handle: Callable[[Delivery], object],
    stop: threading.Event,
) -> None:
    """Pass each pack to `handle`, then confirm and record it, until `stop` is set; then all that is confirmed is in the
    table.

    Begins at the table's position. A partition that the table does not have begins at the broker's position, otherwise
    at its beginning. Raises SupersededRun if another run took the group over in the table, such as a Spark query or a
    reset; TubeError, OffsetsTableError, and errors of `handle`. After an error the successor reads again what was
    confirmed since the last record.
    """
    with ClientBalanceConsumer(
        settings, consumer_group, topics, source_count=1, node_id=0, start_from="earliest"
    ) as consumer:
        # Only after the master has accepted this client: now no other is in the group, so any other run is over.
        run = table.open_run(GroupKey(consumer_group, topics), 1, force=True)
        confirmed = table.positions(consumer_group, topics)

        def record() -> None:
            positions = consumer.positions()
            confirmed.update({partition: position.confirmed for partition, position in positions.items()})
            ends = {partition: position.end for partition, position in positions.items()}
            run.record([PartitionProgress(key, at, ends.get(key), 0) for key, at in confirmed.items()])

        due = 0.0
        while not stop.is_set():
            if time.monotonic() >= due:
                _take(consumer, confirmed)
                try:
                    record()
                except SupersededRun:
                    raise
                except OffsetsTableError as error:
                    _log.warning("the offsets table was not written; trying again later: %s", error)
                due = time.monotonic() + _PERIOD_S
            delivery = consumer.get(timeout_ms=250)
            if delivery is None:
                continue
            handle(delivery)
            try:
                confirmed[delivery.partition] = consumer.confirm(delivery)
            except TubeError as error:
                if not (error.retriable or isinstance(error, StalePack)):
                    raise
                _log.warning("a pack of %s was not confirmed and may come again: %s", delivery.partition, error)
        record()


def _take(consumer: ClientBalanceConsumer, confirmed: dict[PartitionKey, int]) -> None:
    """Connect partitions that are new or were lost. One that cannot be taken is tried again at the next call."""
    registered = consumer.registered()
    for partition, available in consumer.partitions().items():
        if available and partition not in registered:
            try:
                confirmed[partition] = consumer.connect(partition, confirmed.get(partition, BootstrapOffset.STORED))
            except TubeError as error:
                if not (error.retriable or isinstance(error, NotAvailable)):
                    raise
                _log.warning("could not take partition %s; trying again later: %s", partition, error)


def main(
    master_servers: Annotated[str, typer.Option(metavar="HOST:PORT,...", envvar="TUBECLIENT_MASTER_SERVERS")],
    consumer_group: Annotated[str, typer.Option(metavar="NAME")],
    topic: Annotated[list[str], typer.Option(metavar="NAME", help="May be given several times.")],
    offsets_table: Annotated[str, typer.Option(metavar="PATH")],
    master_web_port: Annotated[int, typer.Option(metavar="PORT", envvar="TUBECLIENT_MASTER_WEB_PORT")] = 8080,
) -> None:
    """Print a group's messages from the offsets table's position, and record the progress there.

    Ctrl-C or SIGTERM ends it, with exit code 0.

    Example:

      python jobs/consume_from_table.py --master-servers 10.0.0.1:8715 \\
        --consumer-group clicks_etl --topic clicks --offsets-table /lake/_offsets
    """
    stop = threading.Event()

    def show(delivery: Delivery) -> None:
        for body in delivery.bodies:
            sys.stdout.buffer.write(bytes(body) + b"\n")
        sys.stdout.buffer.flush()

    with clear_errors("consume_from_table.py", ""):
        check_folders({"--offsets-table": offsets_table})
        settings = ClientSettings(parse_master_servers(master_servers), master_web_port=master_web_port)
        stop_on_signals(stop)
        consume(settings, OffsetsTable(offsets_table), consumer_group, topic, handle=show, stop=stop)


if __name__ == "__main__":
    script_app(main)()
