"""A simple decoder from packs to rows, a message at a time; the real decoder must agree with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from spark_source.options.row_options import RowOptions
from spark_source.read.schema import arrow_schema
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.range_reader import Pack
from tubeclient.wire.message_time import message_time_ms
from tubeclient.wire.messages import Message

__all__ = ["plain_table"]


def plain_table(packs: Sequence[Pack], *, include_attributes: bool, with_offsets: bool, time_zone: str) -> pa.Table:
    """The rows of the packs; `with_offsets`: each index entry is a message."""
    rows = [
        _row(pack, message, pack.start + number * INDEX_ENTRY_BYTES if with_offsets else None, ZoneInfo(time_zone))
        for pack in packs
        for number, message in enumerate(pack)
    ]
    return pa.Table.from_pylist(rows, arrow_schema(RowOptions(include_attributes=include_attributes)))


def _row(pack: Pack, message: Message, offset: int | None, zone: ZoneInfo) -> dict[str, Any]:
    time_ms = message_time_ms(message.time, zone)
    return {
        "topic": pack.partition.topic,
        "partitionKey": str(pack.partition),
        "brokerId": pack.partition.broker_id,
        "partition": pack.partition.partition_id,
        "offset": offset,
        "messageId": message.message_id,
        "messageType": message.tag or None,
        "messageTime": None if time_ms is None else time_ms * 1_000,
        "value": message.body,
        "attributes": list(message.attributes.items()),
    }
