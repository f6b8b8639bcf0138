"""Consumers of a group without Spark. They continue at the group's position in the offsets table, and record their
progress there. So a Spark query and such consumers can take turns with a group.

    python jobs/consume_from_table.py --master-servers 10.0.0.1:8715 --consumer-group clicks_etl --topic clicks \
        --offsets-table /lake/_offsets --source-count 2 --node-id 0

Start one process for each node from 0 to source-count - 1. It prints a line per message, until SIGINT or SIGTERM. It
waits for a broker that is away. A killed process has confirmed up to a second more than it recorded; its successor
reads that again.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import Annotated

import typer

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError, PartitionProgress, SharedRun, SupersededRun
from spark_source.options.table_uris import check_folders
from tubeclient import (
    ClientBalanceConsumer,
    ClientSettings,
    Delivery,
    NotAvailable,
    PartitionKey,
    StalePack,
    TubeError,
    assign,
)
from tubeclient.settings import parse_master_servers
from tubeclient_cli.common.terminal import clear_errors, script_app, stop_on_signals

__all__ = ["consume"]

_log = logging.getLogger(__name__)

# As long as a master keeps a killed client's registration.
_TAKE_MS = 40_000
_STEP_MS = 250
_LOOK_S = 1.0


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
    """Pass the packs of this node's partitions to `handle`, then confirm and record each.

    Begins at the table's position. A partition that the table does not have begins at the broker's position, otherwise
    at its beginning. Follows the layout: new partitions are assigned to the nodes, and a lost partition is taken again
    from its confirmed position. Ends when `stop` is set; everything confirmed is then recorded. Raises SupersededRun if
    another run took the group over in the table, such as a Spark query or a reset; TubeError, OffsetsTableError, and
    errors of `handle`. After an error the successor reads again what was confirmed since the last record.
    """
    with ClientBalanceConsumer(
        settings, consumer_group, topics, source_count=source_count, node_id=node_id, start_from="earliest"
    ) as consumer:
        # Only after the master has accepted this client: now no other client is in the group as this node.
        run = table.share_run(GroupKey(consumer_group, topics), source_count)
        share = _Share(consumer, table)
        share.take(share.of(consumer.partitions()), timeout_ms=_TAKE_MS)
        _record(consumer, run)
        recorded_at = looked_at = time.monotonic()
        while not stop.is_set():
            delivery = consumer.get(timeout_ms=_STEP_MS)
            if delivery is not None:
                handle(delivery)
                share.confirm(delivery)
            if time.monotonic() >= recorded_at + record_every_s:
                try:
                    _record(consumer, run)
                except SupersededRun:
                    raise
                except OffsetsTableError as error:
                    _log.warning("the offsets table was not written; trying again later: %s", error)
                recorded_at = time.monotonic()
            if time.monotonic() >= looked_at + _LOOK_S:
                share.follow(run)
                looked_at = time.monotonic()
        # Before the partitions are released, so that the next owner finds the record.
        _record(consumer, run)


class _Share:
    """This node's share of the partitions, for one thread."""

    def __init__(self, consumer: ClientBalanceConsumer, table: OffsetsTable) -> None:
        self._consumer = consumer
        self._table = table
        self._confirmed: dict[PartitionKey, int] = {}
        self._warned: set[PartitionKey] = set()

    def of(self, partitions: Collection[PartitionKey]) -> list[PartitionKey]:
        """The `partitions` that this node reads."""
        return list(assign("modulo", partitions, self._consumer.source_count)[self._consumer.node_id])

    def confirm(self, delivery: Delivery) -> None:
        """Confirm a pack. If its partition was lost meanwhile, its messages are delivered again. If its broker does not
        answer, they may be; the consumer continues once it does."""
        try:
            self._confirmed[delivery.partition] = self._consumer.confirm(delivery)
        except StalePack as error:
            _log.warning("%s", error)
        except TubeError as error:
            if not error.retriable:
                raise
            _log.warning("a pack of partition %s was not confirmed and may come again: %s", delivery.partition, error)

    def take(self, partitions: Collection[PartitionKey], *, timeout_ms: float = 0) -> None:
        """Connect the partitions, each at the table's position or a later one confirmed here."""
        for partition in partitions:
            self._consumer.connect(partition, timeout_ms=timeout_ms)
        # Only after taking them: until then their former owner may record.
        positions = self._table.positions(self._consumer.consumer_group, self._consumer.topics)
        for partition in partitions:
            known = [place[partition] for place in (positions, self._confirmed) if partition in place]
            if known:
                self._consumer.connect(partition, max(known), timeout_ms=timeout_ms)

    def follow(self, run: SharedRun) -> None:
        """Release partitions of other nodes, and take this node's missing ones. A partition that cannot be taken is
        tried again at the next call."""
        available, held = self._consumer.partitions(), self._consumer.registered()
        ours = self.of(available)
        others = set(held).difference(ours)
        if others:
            try:
                _record(self._consumer, run)  # so that the next owner finds the record
            except SupersededRun:
                raise
            except OffsetsTableError as error:
                _log.warning("keeping partitions of other nodes until the offsets table is written: %s", error)
                others = set()
            for partition in sorted(others):
                self._consumer.disconnect(partition)
        for partition in ours:
            if partition in held or not available[partition]:
                continue
            try:
                self.take([partition])
            except (TubeError, OffsetsTableError) as error:
                if isinstance(error, TubeError) and not (error.retriable or isinstance(error, NotAvailable)):
                    raise
                # Without the table's position, it would be read from the broker's.
                self._consumer.disconnect(partition)
                if partition not in self._warned:
                    _log.warning("could not take partition %s; trying again later: %s", partition, error)
                self._warned.add(partition)
            else:
                self._warned.discard(partition)
                _log.info("this node now reads partition %s", partition)


def _record(consumer: ClientBalanceConsumer, run: SharedRun) -> None:
    run.record(
        [
            PartitionProgress(partition, position.confirmed, position.end, consumer.node_id)
            for partition, position in consumer.positions().items()
        ]
    )


def main(
    master_servers: Annotated[str, typer.Option(metavar="HOST:PORT,...", envvar="TUBECLIENT_MASTER_SERVERS")],
    consumer_group: Annotated[str, typer.Option(metavar="NAME")],
    topic: Annotated[list[str], typer.Option(metavar="NAME", help="May be given several times.")],
    offsets_table: Annotated[str, typer.Option(metavar="PATH")],
    source_count: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes of the group.")] = 1,
    node_id: Annotated[int, typer.Option(metavar="I", min=0, help="The id of this node.")] = 0,
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
        consume(
            settings,
            OffsetsTable(offsets_table),
            consumer_group,
            topic,
            source_count=source_count,
            node_id=node_id,
            handle=show,
            stop=stop,
        )


if __name__ == "__main__":
    script_app(main)()
