"""A group that really reads a topic, batch by batch as a query does, by a clock that tests set by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from embedded_tubemq import EmbeddedTubeMQ
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tests.spark_source.feed import Feed
from tests.tubeclient_cli.offsets.runner import GROUP
from tubeclient import ClientSettings, RangeReader
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, OffsetRange, PartitionKey
from tubeclient.settings import parse_master_servers
from tubeclient.wire.message_time import message_time_text

__all__ = ["MINUTE_S", "Query", "minutes_ago"]

MINUTE_S = 60


def minutes_ago(minutes: float) -> str:
    """The time on a message that was sent then."""
    return message_time_text(datetime.fromtimestamp(time.time() - minutes * MINUTE_S, UTC))


class Query:
    """Reads `partitions` of a feed's topic from their beginning on, and records each batch in the table at `uri`.

    `began_s_ago` is where its clock begins, before now. It stands still but in `batch`.
    """

    def __init__(self, feed: Feed, uri: str, partitions: list[PartitionKey], began_s_ago: float) -> None:
        self._tube: EmbeddedTubeMQ = feed.tube
        self._feed = feed
        settings = ClientSettings(parse_master_servers(feed.tube.master_address))
        self._reader = RangeReader(settings, (f"{GROUP}-r0",))
        self._now_s = time.time() - began_s_ago
        self.positions = dict.fromkeys(partitions, 0)
        table = OffsetsTable(uri, clock_ms=lambda: int(self._now_s * 1000))
        self._run = table.open_run(GroupKey(GROUP, [feed.topic]), 1, force=True)

    def begin(self) -> None:
        """Record where the query begins; its first batch is not complete yet."""
        self._run.keep_initial("earliest", self.positions)

    def batch(self, rows: Mapping[PartitionKey, int] | int | None = None, after_s: float = 10) -> int:
        """Read so many messages of each partition (None: all that there are), `after_s` after the batch before; returns
        how many were read."""
        self._now_s += after_s
        ends = {key: self._bounds_end(key) for key in self.positions}
        read = 0
        for key, position in self.positions.items():
            wanted = rows.get(key, 0) if isinstance(rows, Mapping) else rows
            end = ends[key] if wanted is None else min(ends[key], position + wanted * INDEX_ENTRY_BYTES)
            if end > position:
                read += sum(map(len, self._reader.read(self._broker(key), OffsetRange(key, position, end))))
            self.positions[key] = end
        self._run.record([PartitionProgress(key, at, ends[key], 0) for key, at in self.positions.items()])
        return read

    def close(self) -> None:
        self._reader.close()

    def _bounds_end(self, key: PartitionKey) -> int:
        store_id = key.store.store_id
        return self._tube.bounds(key.topic, store_id=store_id, broker_id=key.broker_id).max_offset

    def _broker(self, key: PartitionKey) -> BrokerInfo:
        host, _, port = self._tube.broker_addresses[key.broker_id].rpartition(":")
        return BrokerInfo(key.broker_id, host, int(port))
