"""Converts packs of messages to Arrow batches.

Spark compares the schema of the first batch only, so every batch has the schema of Spark's converter. Where the
compiled core is installed, no Python code runs per message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.options.source_options import ATTRIBUTES, RowOptions
from spark_source.plan.read_task import OffsetRule
from spark_source.read.schema import OF_PARTITIONS, arrow_schema
from tubeclient.core import CORE
from tubeclient.errors import CorruptMessage, DataLoss
from tubeclient.flows.message_pack import corrupt_message, counted_place
from tubeclient.flows.read_range import Pack
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.wire.message_time import message_time_ms

if TYPE_CHECKING:
    from spark_source.read.records import RecordRows


class PackDecoder:
    """Turns packs with verified checksums into Arrow batches. The core keeps texts, so each task needs its own.

    `time_zone` is the time zone of the producers' clocks, an IANA name. `is_alone` says whether a partition is still
    alone in its store; it is called if such a partition lacks messages.
    """

    def __init__(
        self,
        *,
        rows: RowOptions,
        time_zone: str,
        fail_on_data_loss: bool = True,
        is_alone: Callable[[PartitionKey], bool] = lambda _: True,
    ) -> None:
        # Records are found by the attributes of their messages, so those are always among the columns of messages.
        of_messages = RowOptions(
            columns=ATTRIBUTES if rows.include_attributes or rows.payload != "raw" else (),
            bad_messages=rows.bad_messages,
        )
        self.schema: pa.Schema = arrow_schema(of_messages)
        self._records: RecordRows | None = None
        if rows.payload != "raw":
            from spark_source.read.records import RecordRows  # costs workers time, which raw messages need not pay

            # What tells of a bad message comes from its row.
            all_columns = ("*", *rows.columns) if rows.columns else ()
            of_records = replace(rows, columns=all_columns) if rows.bad_messages == "keep" else rows
            self._records = RecordRows(of_records, ZoneInfo(time_zone))
        self.missing: Counter[PartitionKey] = Counter()
        """Messages missing from packs with known offsets, where that is no error."""
        self._include_attributes = of_messages.include_attributes
        self._keep_bad = rows.bad_messages == "keep"
        self._fail_on_data_loss = fail_on_data_loss
        self._is_alone = is_alone
        self._joined: set[PartitionKey] = set()
        """Partitions whose store gained partitions after the batch was planned."""
        self._zone = ZoneInfo(time_zone)
        self._texts = None if CORE is None else CORE.Texts(self._time_us)
        self._found = [field for field in self.schema if field.name not in (*OF_PARTITIONS, "offset")]
        self._partition: PartitionKey | None = None
        self._same: list[pa.Array] = []

    def batches(
        self, packs: Sequence[Pack], rule: OffsetRule, tags: frozenset[str] = frozenset()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition's packs: their messages as `decode` returns them, or the records of these."""
        if self._records is None:
            yield self.decode(packs, rule, tags)
            return
        messages = self._messages(packs, rule)
        numbers = pa.array(np.arange(messages.num_rows))
        if tags:
            wanted = self._has_tag(messages, tags)
            messages, numbers = messages.filter(wanted), numbers.filter(wanted)
        try:
            yield from self._records.of(messages, lambda rows: self._columns_of(packs[0].partition, rows))
        except CorruptMessage as error:
            raise self._at(packs, numbers[error.number or 0].as_py(), error) from error

    def decode(self, packs: Sequence[Pack], rule: OffsetRule, tags: frozenset[str] = frozenset()) -> pa.RecordBatch:
        """Return the messages of one partition's packs as one batch; only those with `tags`, if there are any.
        CorruptMessage: a message cannot be parsed. DataLoss: messages are missing."""
        messages = self._messages(packs, rule)
        return messages.filter(self._has_tag(messages, tags)) if tags else messages

    def _has_tag(self, messages: pa.RecordBatch, tags: frozenset[str]) -> pa.BooleanArray:
        """Brokers compare only 32-bit hashes of tags, so other tags can be among them. A bad message's is not known."""
        found = pc.is_in(messages.column("messageType"), pa.array(tags, pa.string()))
        return pc.or_(found, pc.is_valid(messages.column("badReason"))) if self._keep_bad else found

    def _messages(self, packs: Sequence[Pack], rule: OffsetRule) -> pa.RecordBatch:
        found = self._compiled_columns(packs) or self._plain_columns(packs)
        rows = len(found[0])
        same = [column.slice(0, rows) for column in self._columns_of(packs[0].partition, rows)]
        return pa.RecordBatch.from_arrays([*same, self._offsets(packs, rows, rule), *found], schema=self.schema)

    def _columns_of(self, key: PartitionKey, rows: int) -> list[pa.Array]:
        """The columns that are constant within a partition, for at least `rows` rows."""
        if key != self._partition or rows > len(self._same[0]):
            self._partition = key
            self._same = [
                pa.repeat(pa.scalar(value(key), self.schema.field(name).type), rows)
                for name, value in OF_PARTITIONS.items()
            ]
        return self._same

    def _compiled_columns(self, packs: Sequence[Pack]) -> list[pa.Array] | None:
        """What `_plain_columns` returns, of the core. None if it leaves these messages to the plain code."""
        if CORE is None or self._texts is None or not all(isinstance(pack.columns, CORE.Messages) for pack in packs):
            return None
        whole = self._texts.columns([pack.columns for pack in packs], self._include_attributes)
        if whole is None:
            return None
        found = pa.record_batch(whole).columns
        if self._keep_bad:
            found.insert(4, pa.nulls(len(found[0]), pa.string()))
        return [column.cast(field.type) for column, field in zip(found, self._found, strict=True)]

    def _plain_columns(self, packs: Sequence[Pack]) -> list[pa.Array]:
        """What messages hold: the columns of `_found`. CorruptMessage: one cannot be parsed, and bad ones are not
        kept."""
        rows: list[dict[str, Any]] = []
        for message in chain.from_iterable(packs):
            try:
                row = {
                    "messageId": message.message_id,
                    "messageType": message.tag or None,
                    "messageTime": self._time_us(message.time),
                    "value": message.body,
                    "badReason": message.bad_reason,
                    "attributes": list(message.attributes.items()),
                }
            except CorruptMessage as error:
                raise self._at(packs, len(rows), error) from error
            rows.append(row)
        found: list[pa.Array] = pa.RecordBatch.from_pylist(rows, schema=pa.schema(self._found)).columns
        return found

    def _time_us(self, text: str) -> int | None:
        time_ms = message_time_ms(text, self._zone)
        return None if time_ms is None else time_ms * 1_000

    def _at(self, packs: Sequence[Pack], row: int, error: CorruptMessage) -> CorruptMessage:
        """The error for the message in this row of the packs."""
        for pack in packs:
            if row < len(pack):
                break
            row -= len(pack)
        place = counted_place(pack.partition, pack.start, pack.end, len(pack), row)
        return corrupt_message(place, CorruptMessage(str(error), number=row))

    def _offsets(self, packs: Sequence[Pack], rows: int, rule: OffsetRule) -> pa.Array:
        if rule is OffsetRule.UNKNOWN:
            return pa.nulls(rows, pa.int64())
        return pa.concat_arrays([self._offsets_of(pack, rule) for pack in packs])

    def _offsets_of(self, pack: Pack, rule: OffsetRule) -> pa.Array:
        rows = len(pack)
        missing = (pack.end - pack.start) // INDEX_ENTRY_BYTES - rows
        if missing == 0:
            return pa.array(np.arange(pack.start, pack.end, INDEX_ENTRY_BYTES))
        if rule is OffsetRule.ALWAYS and self._is_still_alone(pack.partition):
            if self._fail_on_data_loss:
                raise DataLoss(
                    f"partition {pack.partition} has {rows} messages in its offsets [{pack.start}, {pack.end}), but "
                    f"{rows + missing} index entries: the broker no longer has the other messages, or cannot read "
                    "them. Start from offsets that the broker still holds, or set failOnDataLoss=false to continue "
                    "without these messages",
                    partition=str(pack.partition),
                    wanted=pack.start,
                    found=pack.end - rows * INDEX_ENTRY_BYTES,
                )
            self.missing[pack.partition] += missing
        return pa.nulls(rows, pa.int64())

    def _is_still_alone(self, key: PartitionKey) -> bool:
        if key not in self._joined and not self._is_alone(key):
            self._joined.add(key)
        return key not in self._joined
