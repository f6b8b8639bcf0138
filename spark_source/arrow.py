"""From packs of messages to Arrow batches, a column at a time.

Spark takes a batch as it is, after comparing the schema of the first one; so every batch is built with the one schema
that Spark's converter gives. A pack becomes one batch; `regroup` joins and cuts them to a size that suits both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

import pyarrow as pa

from spark_source.offset_rule import OffsetRule
from spark_source.schema import arrow_schema
from tubeclient.errors import CorruptMessage, DataLoss
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.wire.crc32 import crc32
from tubeclient.wire.message_time import message_time_ms
from tubeclient.wire.payload import ATTRIBUTE_FLAG, TAG_KEY, TIME_KEY, parse_attributes

if TYPE_CHECKING:
    from tubeclient.wire.proto.broker_pb2 import TransferedMessage

__all__ = ["MAX_BATCH_BYTES", "MAX_BATCH_ROWS", "MIN_BATCH_ROWS", "Pack", "PackDecoder", "regroup"]

MIN_BATCH_ROWS: Final = 10_000
MAX_BATCH_ROWS: Final = 64_000
MAX_BATCH_BYTES: Final = 8 << 20
"""A batch is held whole on both sides of the socket. A single message may be larger; it is then a batch of its own."""

_CHECKSUM_MASK: Final = 0x7FFFFFFF
_LENGTH_BYTES: Final = 4
_OWN_MARK: Final = b"$msgT"
"""What TubeMQ's own attributes begin with."""
_TIME_MARK: Final = f"{TIME_KEY}=".encode()
_KNOWN_TEXTS: Final = 4_096


class Pack(Protocol):
    """What a range reader yields: all messages of a partition in the index range [start, end)."""

    @property
    def partition(self) -> PartitionKey: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def messages(self) -> Sequence[TransferedMessage]: ...


class _Attributes(NamedTuple):
    tag: str | None
    time_us: int | None
    """Microseconds since 1970, UTC."""
    others: dict[str, str]


_NO_ATTRIBUTES: Final = _Attributes(None, None, {})


class PackDecoder:
    """Turns packs into Arrow batches; one decoder for one task, as it remembers the attribute texts that it has parsed.

    `time_zone` is the zone of the producers' clocks: an IANA name.
    """

    def __init__(self, *, include_attributes: bool, time_zone: str, fail_on_data_loss: bool = True) -> None:
        self.schema: pa.Schema = arrow_schema(include_attributes)
        self.missing = 0
        """Messages that packs with known offsets should have had and had not; counted where that is no error."""
        self._include_attributes = include_attributes
        self._zone = ZoneInfo(time_zone)
        self._fail_on_data_loss = fail_on_data_loss
        self._known: dict[bytes, _Attributes] = {}
        self._times_us: dict[str, int | None] = {}

    def decode(self, pack: Pack, rule: OffsetRule, tags: frozenset[str] = frozenset()) -> pa.RecordBatch:
        """Return the pack's messages, of `tags` only where there are any, as one batch.

        CorruptMessage: a message does not match its checksum, or cannot be taken apart. DataLoss: messages are missing.
        """
        messages = list(pack.messages)  # once: each walk over the container makes its objects anew
        payloads = [message.payLoadData for message in messages]
        self._verify(pack, messages, payloads)
        flags = [message.flag & ATTRIBUTE_FLAG for message in messages]
        values, attributes = self._split(pack, payloads, flags) if any(flags) else (payloads, None)
        key, rows = pack.partition, len(payloads)
        columns = [
            pa.repeat(pa.scalar(key.topic, pa.string()), rows),
            pa.repeat(pa.scalar(str(key), pa.string()), rows),
            pa.repeat(pa.scalar(key.broker_id, pa.int32()), rows),
            pa.repeat(pa.scalar(key.partition_id, pa.int32()), rows),
            self._offsets(pack, rows, rule),
            pa.array([message.messageId for message in messages], pa.int64()),
        ]
        if attributes is None:
            columns += [pa.nulls(rows, pa.string()), pa.nulls(rows, self.schema.field("messageTime").type)]
        else:
            times = pa.array([found.time_us for found in attributes], pa.int64())
            columns += [
                pa.array([found.tag for found in attributes], pa.string()),
                times.cast(self.schema.field("messageTime").type),
            ]
        columns.append(pa.array(values, pa.binary()))
        if self._include_attributes:
            columns.append(self._maps(attributes or [_NO_ATTRIBUTES] * rows))
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if not tags:
            return batch
        # Brokers compare 32-bit hashes of tags only, so others can be among them.
        wanted = [found.tag in tags for found in attributes] if attributes is not None else [False] * rows
        return batch.filter(pa.array(wanted, pa.bool_()))

    def _verify(self, pack: Pack, messages: list[TransferedMessage], payloads: list[bytes]) -> None:
        wanted = [message.checkSum for message in messages]
        found = [crc & _CHECKSUM_MASK for crc in map(crc32, payloads)]
        if wanted != found:
            number = next(n for n, (one, other) in enumerate(zip(wanted, found, strict=True)) if one != other)
            raise _corrupt(pack, f"message {messages[number].messageId}, number {number}, does not match its checksum")

    def _split(self, pack: Pack, payloads: list[bytes], flags: list[int]) -> tuple[list[bytes], list[_Attributes]]:
        """Return bodies and attributes."""
        values: list[bytes] = []
        attributes: list[_Attributes] = []
        known = self._known
        for payload, flag in zip(payloads, flags, strict=True):
            if flag:
                body_start = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "big")
                found = known.get(payload[_LENGTH_BYTES:body_start])
                if found is None or body_start > len(payload):
                    found = self._attributes(pack, payload, body_start)
                attributes.append(found)
                values.append(payload[body_start:])
            else:
                attributes.append(_NO_ATTRIBUTES)
                values.append(payload)
        return values, attributes

    def _attributes(self, pack: Pack, payload: bytes, body_start: int) -> _Attributes:
        """Return the attributes of one payload.

        Clients write tag and time first. These repeat from message to message, what follows often does not, so the
        text up to the time is remembered, and the rest is parsed only if somebody wants it.
        """
        if body_start > len(payload):
            raise _corrupt(
                pack, f"a message has attributes of {body_start - _LENGTH_BYTES} bytes in a payload of {len(payload)}"
            )
        time_at = payload.find(_TIME_MARK, _LENGTH_BYTES, body_start)
        cut = payload.find(b",", time_at, body_start) if time_at >= 0 else -1
        if cut < 0:
            cut = body_start
        head = payload[_LENGTH_BYTES:cut]
        known = self._known.get(head)
        if known is None:
            if len(self._known) >= _KNOWN_TEXTS:
                self._known.clear()
            known = self._known[head] = self._parse(pack, head)
        own_follow = payload.find(_OWN_MARK, cut, body_start) >= 0
        if cut == body_start or not (self._include_attributes or own_follow):
            return known
        rest = self._parse(pack, payload[cut:body_start])
        time_us = known.time_us if rest.time_us is None else rest.time_us
        return _Attributes(rest.tag or known.tag, time_us, {**known.others, **rest.others})

    def _parse(self, pack: Pack, raw: bytes) -> _Attributes:
        try:
            found = parse_attributes(raw.decode())
        except UnicodeDecodeError as error:
            raise _corrupt(pack, f"attributes are not UTF-8: {error}") from error
        tag, time = found.pop(TAG_KEY, None), found.pop(TIME_KEY, "")
        return _Attributes(tag or None, self._time_us(time) if time else None, found)

    def _time_us(self, text: str) -> int | None:
        """Read yyyyMMddHHmm; None for anything else, as Apache's client does."""
        if text not in self._times_us:
            if len(self._times_us) >= _KNOWN_TEXTS:
                self._times_us.clear()
            time_ms = message_time_ms(text, self._zone)
            self._times_us[text] = None if time_ms is None else time_ms * 1_000
        return self._times_us[text]

    def _maps(self, attributes: list[_Attributes]) -> pa.Array:
        maps = [found.others for found in attributes]
        ends = accumulate(map(len, maps), initial=0)
        keys = pa.array(list(chain.from_iterable(maps)), pa.string())
        values = pa.array([value for others in maps for value in others.values()], pa.string())
        return pa.MapArray.from_arrays(
            pa.array(list(ends), pa.int32()), keys, values, type=self.schema.field("attributes").type
        )

    def _offsets(self, pack: Pack, rows: int, rule: OffsetRule) -> pa.Array:
        missing = (pack.end - pack.start) // INDEX_ENTRY_BYTES - rows
        if rule is not OffsetRule.UNKNOWN and missing == 0:
            return pa.arange(pack.start, pack.end, INDEX_ENTRY_BYTES)
        if rule is OffsetRule.ALWAYS:
            if self._fail_on_data_loss:
                raise DataLoss(
                    f"partition {pack.partition} has {rows} messages in its offsets [{pack.start}, {pack.end}), "
                    f"where its index has {rows + missing}: the broker no longer has the others, or cannot read "
                    "them. Were partitions added to the topic just now, so that others share the index? Then start "
                    "the query again. Else start from offsets that the broker still holds, or set "
                    "failOnDataLoss=false to go on without them",
                    partition=str(pack.partition),
                    wanted=pack.start,
                    found=pack.end - rows * INDEX_ENTRY_BYTES,
                )
            self.missing += missing
        return pa.nulls(rows, pa.int64())


def _corrupt(pack: Pack, what: str) -> CorruptMessage:
    return CorruptMessage(
        f"partition {pack.partition}, offsets [{pack.start}, {pack.end}): {what}. It was damaged on its way, or on the "
        f"broker's disk if reading again gives this error again; then begin with a new checkpoint behind it, at "
        f"startingOffsets {pack.end} for this partition"
    )


def regroup(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches: of at least MIN_BATCH_ROWS rows, or so large that the next would not fit.

    None has more than MAX_BATCH_ROWS rows or, unless it is a single row, more than MAX_BATCH_BYTES.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for whole in batches:
        for batch in _cut(whole):
            if held and (rows + batch.num_rows > MAX_BATCH_ROWS or size + batch.nbytes > MAX_BATCH_BYTES):
                yield pa.concat_batches(held)
                held, rows, size = [], 0, 0
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= MIN_BATCH_ROWS:
                yield pa.concat_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield `batch` in halves of halves until none is too large; nothing for an empty one."""
    if batch.num_rows == 0:
        return
    if batch.num_rows == 1 or (batch.num_rows <= MAX_BATCH_ROWS and batch.nbytes <= MAX_BATCH_BYTES):
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))
