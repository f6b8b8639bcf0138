"""Converts messages to records: in columns, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, tzinfo
from functools import partial
from itertools import repeat
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from tubeclient.core import CORE
from tubeclient.errors import CorruptMessage
from tubeclient.inlong.attributes import MESSAGE_GROUP_ID, Origin, parse_time
from tubeclient.inlong.packs import Limits, groups_of_pack, timed_groups, version_of
from tubeclient.wire.messages import Message

Payload = Literal["inlong", "auto"]
"""The configured kind of messages: all are InLong's, or each is detected."""

_VERSION: Final = "version"
_ENCODING: Final = "msgEnType"
_RAW, _OBJECTS, _PACK = "0", "1", "2"
"""InLong's numbers (MessageWrapType): the body is one record, a protobuf list of records, or an InLongMsg."""

_Message: TypeAlias = tuple[bytes, Mapping[str, str], int]
"""Body, attributes, and what the caller repeats of them in each record, in bytes."""

_NO_ORIGIN: Final = Origin(None, None, None)
"""Of a message that is not from InLong."""
_RECORD_BYTES: Final = 64
"""What a record takes besides its body and what it has from its message, about."""
_PAIR_BYTES: Final = 8
"""What a pair of texts takes in a column besides the texts."""


class Record(NamedTuple):
    """One record of a message."""

    body: bytes
    origin: Origin
    record_index: int
    """Its index in the message, from 0."""
    attributes: dict[str, str]


class BadMessage(NamedTuple):
    """A message that cannot be parsed."""

    number: int
    """Its index among the messages that were decoded together, from 0."""
    reason: str


class Segment(NamedTuple):
    """Consecutive records with the same attributes."""

    origin: Origin
    attributes: dict[str, str]
    bodies: list[bytes]

    def repeated_bytes(self, of_message: int) -> int:
        """About how many bytes its records take in columns besides their bodies; `of_message` are those of each record
        for what it has from its message."""
        ids = len(self.origin.group_id or "") + len(self.origin.stream_id or "")
        pairs = sum(len(key) + len(value) + _PAIR_BYTES for key, value in self.attributes.items())
        return len(self.bodies) * (of_message + ids + pairs)


class RecordColumns(NamedTuple):
    """Records as columns of equal length."""

    message_numbers: pa.Int32Array
    """The index of each record's message, from 0."""
    record_indexes: pa.Int32Array
    """Its index in the message, from 0."""
    group_ids: pa.StringArray
    stream_ids: pa.StringArray
    data_times_ms: pa.Int64Array
    bodies: pa.BinaryArray
    attribute_maps: Callable[[], pa.MapArray]
    """Gives the attributes as a column of maps from text to text."""
    bad: list[BadMessage]

    @classmethod
    def of(cls, messages: Sequence[tuple[int, list[Segment]]], bad: list[BadMessage]) -> RecordColumns:
        """Make columns of messages, each with its number and segments."""
        rows = [
            (number, index, *segment.origin, body, segment.attributes)
            for number, segments in messages
            for index, (segment, body) in enumerate((segment, body) for segment in segments for body in segment.bodies)
        ]
        kinds = (pa.int32(), pa.int32(), pa.string(), pa.string(), pa.int64(), pa.binary())
        columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
        maps = pa.map_(pa.string(), pa.string())
        return cls._make([*columns, lambda: pa.array([list(row[-1].items()) for row in rows], maps), bad])

    @classmethod
    def of_core(cls, records: pa.RecordBatch, segments: pa.RecordBatch, bad: list[BadMessage]) -> RecordColumns:
        """Make columns of what the compiled core gives."""
        numbers, indexes, of_segment, bodies = records.columns
        *common, maps = segments.columns
        each = [column.take(of_segment) for column in common]
        return cls._make([numbers, indexes, *each, bodies, lambda: maps.take(of_segment), bad])


class RecordDecoder:
    """Parses messages.

        >>> pack = encode_pack([RecordGroup({"groupId": "g", "streamId": "s"}, [b"one", b"two"])], made_ms=0)
        >>> [columns.bodies.to_pylist() for columns in RecordDecoder().decode([pack], [{}])]
        [[b'one', b'two']]

    Args:
        payload: With "auto" a message is InLong's if it names its wrapping as DataProxy does, or has InLongMsg's magic.
            All others are single records. With "inlong" a message without a named wrapping is an InLongMsg, as in
            InLong's sort SDK.
        zone: The time zone of data times written as text (attribute `t`).
        limits: The largest unpacked size of one message; by default `Limits()`.
        batch_bytes: About how many bytes of columns `decode` yields at a time.
    """

    def __init__(
        self,
        payload: Payload = "inlong",
        *,
        zone: tzinfo = UTC,
        limits: Limits | None = None,
        batch_bytes: int = 32 << 20,
    ) -> None:
        self._payload: Payload = payload
        self._zone = zone
        self._limits = limits or Limits()
        self._batch_bytes = batch_bytes

    def decode(
        self,
        bodies: Sequence[bytes],
        attributes: Sequence[Mapping[str, str]],
        repeated_bytes: Sequence[int] | None = None,
    ) -> Iterator[RecordColumns]:
        """Yield the records of messages, in order.

        A message is never split. A message that cannot be parsed gives no record and is in `bad`.

        Args:
            attributes: The attributes of each message.
            repeated_bytes: How many bytes of each message the caller repeats in each of its records.

        Yields:
            About `batch_bytes` of columns at a time.
        """
        repeated = repeat(0, len(bodies)) if repeated_bytes is None else repeated_bytes
        messages = list(zip(bodies, attributes, repeated, strict=True))
        return self._decode_plain(messages) if CORE is None else self._decode_compiled(CORE, messages)

    def _decode_compiled(self, core: ModuleType, messages: list[_Message]) -> Iterator[RecordColumns]:
        done, limits = 0, (*astuple(self._limits), self._batch_bytes)
        while done < len(messages):
            bad: list[BadMessage] = []
            plain = partial(self._segments_for_core, messages, bad)
            count, records, segments = core.take_records(
                messages[done:], done, self._payload == "auto", limits, self._time_ms, plain
            )
            yield RecordColumns.of_core(pa.record_batch(records), pa.record_batch(segments), bad)
            done += count

    def _segments_for_core(self, messages: list[_Message], bad: list[BadMessage], number: int) -> Iterator[Any] | None:
        """The segments of a message that the core leaves to the plain code; None if it is bad."""
        try:
            segments, _ = self._segments_of(*messages[number])
        except CorruptMessage as error:
            bad.append(BadMessage(number, str(error)))
            return None
        return ((segment.origin, list(segment.attributes.items()), segment.bodies) for segment in segments)

    def _time_ms(self, text: str) -> int | None:
        try:
            return parse_time(text, self._zone)
        except CorruptMessage:
            return None

    def _decode_plain(self, messages: list[_Message]) -> Iterator[RecordColumns]:
        good: list[tuple[int, list[Segment]]] = []
        bad: list[BadMessage] = []
        size = 0
        for number, message in enumerate(messages):
            try:
                segments, repeats = self._segments_of(*message)
            except CorruptMessage as error:
                bad.append(BadMessage(number, str(error)))
                continue
            good.append((number, segments))
            size += repeats + sum(
                _RECORD_BYTES * len(segment.bodies) + sum(map(len, segment.bodies)) for segment in segments
            )
            if size >= self._batch_bytes:
                yield RecordColumns.of(good, bad)
                good, bad, size = [], [], 0
        if good or bad:
            yield RecordColumns.of(good, bad)

    def records(self, body: bytes, attributes: Mapping[str, str]) -> list[Record]:
        """Return the records of one message with these attributes.

        Raises:
            CorruptMessage: The message cannot be parsed.
        """
        segments, _ = self._segments_of(body, attributes, 0)
        each = ((record, segment) for segment in segments for record in segment.bodies)
        return [
            Record(record, segment.origin, index, dict(segment.attributes))
            for index, (record, segment) in enumerate(each)
        ]

    def _segments(self, body: bytes, message: Mapping[str, str]) -> Iterator[Segment]:
        """The records of one message."""
        wrapping = self._wrapping(body, message)
        if wrapping == _RAW:
            yield Segment(Origin.of_message(message) if MESSAGE_GROUP_ID in message else _NO_ORIGIN, {}, [body])
        elif wrapping == _OBJECTS:
            origin = Origin.of({}, message, self._zone)
            for time_ms, (attributes, records) in timed_groups(message, body, self._limits):
                yield Segment(origin._replace(data_time_ms=time_ms), attributes, records)
        else:
            for attributes, records in groups_of_pack(body, message, self._limits):
                yield Segment(Origin.of(attributes, message, self._zone), attributes, records)

    def _wrapping(self, body: bytes, message: Mapping[str, str]) -> str:
        named = message.get(_VERSION, message.get(_ENCODING))
        if self._payload == "auto" and _ENCODING not in message and MESSAGE_GROUP_ID not in message:
            named = None  # any producer may use an attribute "version"
        if named is None:
            return _PACK if self._payload == "inlong" or version_of(body) is not None else _RAW
        if named not in (_RAW, _OBJECTS, _PACK):
            raise CorruptMessage("the message names an unknown wrapping; 0, 1 and 2 are known")
        return named

    def _segments_of(self, body: bytes, message: Mapping[str, str], of_message: int) -> tuple[list[Segment], int]:
        """The segments of a message, and what its records repeat, in bytes. CorruptMessage: it cannot be parsed; or
        that is too much, as a few bytes can be many records, and each has the attributes of all."""
        found, size, most = [], 0, self._limits.max_repeated_bytes
        for segment in self._segments(body, message):
            size += segment.repeated_bytes(of_message)
            if size > most:
                raise CorruptMessage(f"what the message's records have in common would take more than {most} bytes")
            found.append(segment)
        return found, size


def records_of(body: bytes, attributes: Mapping[str, str], decoder: RecordDecoder | None = None) -> list[Record]:
    """Return the records of one message with these attributes.

    Args:
        decoder: What messages hold; by default `RecordDecoder()`.

    Raises:
        CorruptMessage: The message cannot be parsed.
    """
    return (decoder or RecordDecoder()).records(body, attributes)


def records_of_messages(
    messages: Iterable[Message], where: str, decoder: RecordDecoder | None = None, *, keep_bad: bool = False
) -> Iterator[tuple[Message, list[Record]]]:
    """Yield each message with its records, in order. A bad one has no records and a `bad_reason`; with `keep_bad`
    false, one that cannot be unpacked is a CorruptMessage that says `where` its pack is."""
    for number, message in enumerate(messages):
        records: list[Record] = []
        if message.bad_reason is None:
            try:
                records = records_of(message.body, message.attributes, decoder)
            except CorruptMessage as error:
                if not keep_bad:
                    raise CorruptMessage(
                        f"{where}, the message with id {message.message_id}: {error}. "
                        'Set bad_messages="keep" to get it with the reason',
                        number=number,
                    ) from error
                message = message.marked(str(error))
        yield message, records
