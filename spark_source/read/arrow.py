"""Converts packs of messages to Arrow batches, a column at a time and several packs at once.

Spark compares the schema of the first batch only, so every batch has the schema of Spark's converter. No Python code
runs per message unless it has attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.options.source_options import ATTRIBUTES, RowOptions
from spark_source.plan.read_task import OffsetRule
from spark_source.read.attributes import NO_ATTRIBUTES, Attributes, AttributeTexts
from spark_source.read.schema import OF_PARTITIONS, arrow_schema
from tubeclient.errors import CorruptMessage, DataLoss
from tubeclient.flows.message_pack import corrupt_message, counted_place
from tubeclient.flows.read_range import Pack
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey

if TYPE_CHECKING:
    from spark_source.read.records import RecordRows

__all__ = ["PackDecoder"]


class _Parts(NamedTuple):
    """What payloads hold, all columns of one length."""

    tags: pa.StringArray
    times_us: pa.Int64Array
    values: pa.BinaryArray
    attributes: pa.MapArray | None = None
    """Where they are wanted and there are any."""
    bad: pa.StringArray | None = None
    """Why a message is bad; None where all are good."""


class PackDecoder:
    """Turns packs with verified checksums into Arrow batches. It caches texts, so each task needs its own.

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
        self._texts = AttributeTexts(ZoneInfo(time_zone), with_others=self._include_attributes)
        self._time_type = self.schema.field("messageTime").type
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
        ids = np.concatenate([np.array(pack.columns.ids, np.int64) for pack in packs])
        rows = len(ids)
        found = self._parts(packs)
        columns = [same.slice(0, rows) for same in self._columns_of(packs[0].partition, rows)]
        columns += [self._offsets(packs, rows, rule), pa.array(ids)]
        columns += [found.tags, found.times_us.cast(self._time_type), found.values]
        if self._keep_bad:
            columns.append(pa.nulls(rows, pa.string()) if found.bad is None else found.bad)
        if self._include_attributes:
            columns.append(self._maps([NO_ATTRIBUTES] * rows) if found.attributes is None else found.attributes)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _columns_of(self, key: PartitionKey, rows: int) -> list[pa.Array]:
        """The columns that are constant within a partition, for at least `rows` rows."""
        if key != self._partition or rows > len(self._same[0]):
            self._partition = key
            self._same = [
                pa.repeat(pa.scalar(value(key), self.schema.field(name).type), rows)
                for name, value in OF_PARTITIONS.items()
            ]
        return self._same

    def _parts(self, packs: Sequence[Pack]) -> _Parts:
        payloads = list(chain.from_iterable(pack.columns.payloads for pack in packs))
        rows = len(payloads)
        reasons = _damaged(packs)
        if not any(any(pack.columns.flags) for pack in packs):
            nothing = pa.nulls(rows, pa.string()), pa.nulls(rows, pa.int64())
            return _Parts(*nothing, _column_of(payloads), bad=_texts(reasons, rows))
        flags = list(chain.from_iterable(pack.columns.flags for pack in packs))
        bodies: list[bytes] = []
        attributes: list[Attributes] = []
        left = iter(payloads), iter(flags)
        while len(bodies) < rows:
            try:
                self._texts.split(*left, bodies, attributes)
            except CorruptMessage as error:
                number = len(bodies)
                if not self._keep_bad:
                    raise self._at(packs, number, error) from error
                reasons[number] = str(error)
                bodies.append(payloads[number])
                attributes.append(NO_ATTRIBUTES)
        return _Parts(
            pa.array([found.tag for found in attributes], pa.string()),
            pa.array([found.time_us for found in attributes], pa.int64()),
            _column_of(bodies),
            self._maps(attributes) if self._include_attributes else None,
            _texts(reasons, rows),
        )

    def _at(self, packs: Sequence[Pack], row: int, error: CorruptMessage) -> CorruptMessage:
        """The error for the message in this row of the packs."""
        for pack in packs:
            if row < len(pack):
                break
            row -= len(pack)
        place = counted_place(pack.partition, pack.start, pack.end, len(pack), row)
        return corrupt_message(place, CorruptMessage(str(error), number=row))

    def _maps(self, attributes: list[Attributes]) -> pa.Array:
        maps = [found.others for found in attributes]
        ends = accumulate(map(len, maps), initial=0)
        keys = pa.array(list(chain.from_iterable(maps)), pa.string())
        values = pa.array([value for others in maps for value in others.values()], pa.string())
        kind = self.schema.field("attributes").type
        return pa.MapArray.from_arrays(pa.array(list(ends), pa.int32()), keys, values, type=kind)

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
                    f"partition {pack.partition} has {rows} messages in its offsets [{pack.start}, {pack.end}), "
                    f"but {rows + missing} index entries: the broker no longer has the other messages, or cannot read "
                    "them. Start from offsets that the broker still holds, or set failOnDataLoss=false to go on "
                    "without them",
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


def _damaged(packs: Sequence[Pack]) -> dict[int, str]:
    """The numbers of messages among those of all packs that do not match their checksums, and why."""
    found: dict[int, str] = {}
    first = 0
    for pack in packs:
        if pack.damaged:
            found.update((first + number, reason) for number, reason in pack.damaged.items())
        first += len(pack)
    return found


def _column_of(values: Sequence[bytes]) -> pa.BinaryArray:
    """These values in one column. Each byte is copied once; Arrow's own conversion copies it again as buffers grow."""
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=ends[1:])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    )


def _texts(of_rows: dict[int, str], rows: int) -> pa.StringArray | None:
    return pa.array(map(of_rows.get, range(rows)), pa.string()) if of_rows else None
