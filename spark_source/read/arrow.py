"""Converts packs of messages to Arrow batches, a column at a time and several packs at once.

Spark compares the schema of the first batch only, so every batch has the schema of Spark's converter. Where the
compiled core is installed, no Python code runs per message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
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
from tubeclient.wire.payload import TAG_KEY, TIME_KEY, decode_payload, parse_attributes

if TYPE_CHECKING:
    from spark_source.read.records import RecordRows

__all__ = ["PackDecoder"]


_MAPS: Final = pa.map_(pa.string(), pa.string())
_KNOWN_TEXTS: Final = 4_096
_Attributes: TypeAlias = tuple[str | None, int | None, list[tuple[str, str]]]
"""Tag, time in microseconds since 1970, the producer's own ones."""


class _Parts(NamedTuple):
    """What messages hold, all columns of one length."""

    ids: pa.Int64Array
    tags: pa.StringArray
    times_us: pa.Int64Array
    values: pa.BinaryArray
    attributes: pa.MapArray | None = None
    """If they are wanted."""
    bad: Mapping[int, str] = MappingProxyType({})
    """Why messages are bad, by their numbers."""


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
        self._zone = ZoneInfo(time_zone)
        self._parsed = lru_cache(_KNOWN_TEXTS)(self._attributes)
        self._texts = None if CORE is None else CORE.Texts(self._time_us)
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
        found = self._compiled_parts(packs) or self._parts(packs)
        rows = len(found.ids)
        columns = [same.slice(0, rows) for same in self._columns_of(packs[0].partition, rows)]
        columns += [self._offsets(packs, rows, rule), found.ids]
        columns += [found.tags, found.times_us.cast(self._time_type), found.values]
        if self._keep_bad:
            columns.append(pa.array(map(found.bad.get, range(rows)), pa.string()))
        if found.attributes is not None:
            columns.append(found.attributes.cast(self.schema.field("attributes").type))
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

    def _compiled_parts(self, packs: Sequence[Pack]) -> _Parts | None:
        """What `_parts` returns, of the core. None if it leaves these messages to the plain code."""
        if CORE is None or self._texts is None or not all(isinstance(pack.columns, CORE.Messages) for pack in packs):
            return None
        found = self._texts.columns([pack.columns for pack in packs], self._include_attributes)
        return None if found is None else _Parts(*pa.record_batch(found).columns)

    def _parts(self, packs: Sequence[Pack]) -> _Parts:
        bad = _damaged(packs)
        ids: list[int] = []
        bodies: list[bytes] = []
        found: list[_Attributes] = []
        for pack in packs:
            ids += pack.columns.ids
            if not any(pack.columns.flags):
                bodies += pack.columns.payloads
                found += [(None, None, [])] * len(pack)
                continue
            for payload, flag in zip(pack.columns.payloads, pack.columns.flags, strict=True):
                try:
                    body, text = decode_payload(payload, flag)
                except CorruptMessage as error:
                    if not self._keep_bad:
                        raise self._at(packs, len(bodies), error) from error
                    bad[len(bodies)] = str(error)
                    body, text = payload, ""
                bodies.append(body)
                found.append(self._parsed(text))
        return _Parts(
            pa.array(ids, pa.int64()),
            pa.array([tag for tag, _, _ in found], pa.string()),
            pa.array([time_us for _, time_us, _ in found], pa.int64()),
            _column_of(bodies),
            pa.array([others for _, _, others in found], _MAPS) if self._include_attributes else None,
            bad,
        )

    def _attributes(self, text: str) -> _Attributes:
        others = parse_attributes(text)
        tag, time = others.pop(TAG_KEY, None), others.pop(TIME_KEY, "")
        return tag or None, self._time_us(time), list(others.items())

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
