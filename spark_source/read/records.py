"""Converts messages to the records that InLong packed into them, as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.options.source_options import RowOptions
from spark_source.read.schema import OF_PARTITIONS, arrow_schema
from tubeclient.errors import CorruptMessage
from tubeclient.inlong import RecordColumns, RecordDecoder

_OF_MESSAGES: Final = ("offset", "messageId", "messageType", "messageTime", "attributes")
"""Columns that records have from their message."""


def columns_of_records(columns: RecordColumns) -> dict[str, pa.Array]:
    """What records have of their own, by the names of the source's columns; without their attributes."""
    return {
        "value": columns.bodies,
        "inlongGroupId": columns.group_ids,
        "inlongStreamId": columns.stream_ids,
        "dataTime": pc.multiply(columns.data_times_ms, 1_000),
        "recordIndex": columns.record_indexes,
    }


class RecordRows:
    """Turns batches of messages, with their attributes and perhaps `badReason`, into batches of records. `zone` is the
    time zone of times written as text."""

    def __init__(self, rows: RowOptions, zone: ZoneInfo) -> None:
        assert rows.payload != "raw"
        self.schema: pa.Schema = arrow_schema(rows)
        self._of_messages = [name for name in _OF_MESSAGES if name in self.schema.names]
        """Taken for each record: bodies of packs must not be among them."""
        self._has_attributes = "attributes" in self._of_messages
        self._keep_bad = rows.bad_messages == "keep"
        self._decoder = RecordDecoder(rows.payload, zone=zone)

    def of(self, messages: pa.RecordBatch, same: Callable[[int], list[pa.Array]]) -> Iterator[pa.RecordBatch]:
        """Yield the records of messages, in order; bad messages apart from them.

        `same` returns the columns `OF_PARTITIONS` for so many rows. CorruptMessage, with the row in `number`: a
        message cannot be parsed, and bad ones are not kept.
        """
        good = messages
        if self._keep_bad and messages.column("badReason").null_count < messages.num_rows:
            is_good = pc.is_null(messages.column("badReason"))
            good = messages.filter(is_good)
            bad = messages.filter(pc.invert(is_good))
            yield self._bad_rows(bad, bad.column("badReason"), same)
        attributes = [dict(pairs) for pairs in good.column("attributes").to_pylist()]
        tags = good.column("messageType").to_pylist()
        repeated = [len(tag or "") + self._attribute_bytes(own) for tag, own in zip(tags, attributes, strict=True)]
        for columns in self._decoder.decode(good.column("value").to_pylist(), attributes, repeated):
            if columns.bad and not self._keep_bad:
                raise CorruptMessage(columns.bad[0].reason, number=columns.bad[0].number)
            yield self._rows(good, columns, same)
            if columns.bad:
                numbers, reasons = zip(*columns.bad, strict=True)
                yield self._bad_rows(good.take(pa.array(numbers)), pa.array(reasons, pa.string()), same)

    def _attribute_bytes(self, attributes: dict[str, str]) -> int:
        """What a message's attributes take in each of its records."""
        return sum(len(text) for pair in attributes.items() for text in pair) if self._has_attributes else 0

    def _rows(
        self, messages: pa.RecordBatch, columns: RecordColumns, same: Callable[[int], list[pa.Array]]
    ) -> pa.RecordBatch:
        own = columns_of_records(columns)
        if "recordAttributes" in self.schema.names:
            own["recordAttributes"] = columns.attribute_maps()
        return self._batch(
            messages.select(self._of_messages).take(columns.message_numbers), own, len(columns.bodies), same
        )

    def _bad_rows(
        self, messages: pa.RecordBatch, reasons: pa.StringArray, same: Callable[[int], list[pa.Array]]
    ) -> pa.RecordBatch:
        own = {"value": messages.column("value"), "badReason": reasons}
        return self._batch(messages, own, messages.num_rows, same)

    def _batch(
        self, messages: pa.RecordBatch, own: dict[str, pa.Array], count: int, same: Callable[[int], list[pa.Array]]
    ) -> pa.RecordBatch:
        """Columns of the partition, of `own`, of the messages; null where none of these has them."""
        of_partition = dict(zip(OF_PARTITIONS, same(count), strict=True))
        arrays = []
        for field in self.schema:
            if field.name in of_partition:
                arrays.append(of_partition[field.name].slice(0, count))
            elif field.name in own:
                arrays.append(own[field.name].cast(field.type))
            elif field.name in _OF_MESSAGES:
                arrays.append(messages.column(field.name))
            else:
                arrays.append(pa.nulls(count, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
