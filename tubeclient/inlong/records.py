"""Converts messages to records in columns, without a Python object per record unless it has its own attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import repeat
from typing import Final

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.attributes import MESSAGE_GROUP_ID, NO_ORIGIN, Origin, parse_pairs
from tubeclient.inlong.blocks import Limits
from tubeclient.inlong.columns import ColumnBuilder, Record, RecordColumns, Segment
from tubeclient.inlong.message_objs import Payload, Wrapping, records_of_objs, wrapping_of
from tubeclient.inlong.packs import Run, run_of_bin_pack, runs_of_pack, version_of
from tubeclient.wire.messages import Message


class RecordDecoder:
    """Parses messages. `zone` is the time zone of data times written as text (attribute `t`)."""

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
        """Yield the records of messages, in order, about `batch_bytes` of columns at a time.

        `attributes` are those of the messages, `repeated_bytes` what the caller repeats of each for each of its
        records. A message that cannot be parsed gives no record and is in `bad`; a message is never split.
        """
        builder = ColumnBuilder()
        repeated = repeat(0) if repeated_bytes is None else repeated_bytes
        for number, (body, own, of_message) in enumerate(zip(bodies, attributes, repeated, strict=False)):
            try:
                self._add(builder, number, body, own, of_message)
            except CorruptMessage as error:
                builder.add_bad(number, str(error))
            if builder.size >= self._batch_bytes:
                yield builder.columns()
                builder = ColumnBuilder()
        if builder.used:
            yield builder.columns()

    def _add(
        self, builder: ColumnBuilder, number: int, body: bytes, message: Mapping[str, str], of_message: int
    ) -> None:
        wrapping = wrapping_of(message, body, self._payload)
        if wrapping is Wrapping.RAW:
            origin = Origin.of_message(message) if MESSAGE_GROUP_ID in message else NO_ORIGIN
            builder.add_plain(number, [Segment(origin, {}, 1)], [body])
        elif wrapping is Wrapping.MESSAGE_OBJS:
            found = records_of_objs(message, body, self._limits)
            group_id, stream_id, _ = Origin.of({}, message, self._zone)
            segments, size = self._held(
                (
                    Segment(Origin(group_id, stream_id, time_ms), own, 1)
                    for time_ms, own in zip(found.times_ms, found.attributes, strict=True)
                ),
                of_message,
            )
            builder.add_plain(number, segments, found.bodies)
            builder.add_repeated(size)
        else:
            version = version_of(body)
            if version is None:
                raise CorruptMessage(
                    f"the message of {len(body)} bytes is no InLong pack: it does not begin and end with 0F 01 to"
                    " 0F 04; payload auto takes such messages as they are"
                )
            runs = (
                [run_of_bin_pack(body, message, self._limits)]
                if version == 4
                else list(runs_of_pack(body, self._limits))
            )
            segments, size = self._held(
                (segment for run in runs for segment in self._segments(run, message)), of_message
            )
            builder.add_runs(number, segments, runs)
            builder.add_repeated(size)

    def _held(self, segments: Iterable[Segment], of_message: int) -> tuple[list[Segment], int]:
        """The segments of a message, and what its records repeat, in bytes. CorruptMessage if that is too much: a few
        bytes can be many records, and each has the attributes of all."""
        held, size, most = [], 0, self._limits.max_repeated_bytes
        for segment in segments:
            size += segment.repeated_bytes(of_message)
            if size > most:
                raise CorruptMessage(
                    f"the attributes that the message's records have in common would take more than {most} bytes, as"
                    " each record has them; no more are taken"
                )
            held.append(segment)
        return held, size

    def _segments(self, run: Run, message: Mapping[str, str]) -> Iterator[Segment]:
        if not run.has_own:
            yield Segment(Origin.of(run.attributes, message, self._zone), run.attributes, len(run))
            return
        for raw in run.own_texts():
            try:
                own = parse_pairs(raw.decode())
            except UnicodeDecodeError as error:
                raise CorruptMessage(f"the own attributes of a record are not UTF-8: {error}") from error
            both = {**run.attributes, **own} if run.own_counts else {**own, **run.attributes}
            yield Segment(Origin.of(both, message, self._zone), both, 1)


def records_of(body: bytes, attributes: Mapping[str, str], decoder: RecordDecoder | None = None) -> list[Record]:
    """Return the records of one message with these attributes. CorruptMessage: it cannot be parsed."""
    records: list[Record] = []
    for columns in (decoder or RecordDecoder()).decode([body], [attributes]):
        if columns.bad:
            raise CorruptMessage(columns.bad[0].reason)
        records += columns.records()
    return records


_OR_KEEP: Final = '. Set bad_messages="keep" to get it with the reason'


def records_of_messages(
    messages: Iterable[Message], where: str, decoder: RecordDecoder | None = None, *, keep_bad: bool = False
) -> Iterator[tuple[Message, list[Record]]]:
    """Yield each message with its records, in order.

    A bad one has no records and a `bad_reason`; with `keep_bad` false, one that cannot be unpacked is a CorruptMessage
    that says `where` its pack is.
    """
    given = list(messages)
    good = [number for number, one in enumerate(given) if one.bad_reason is None]
    try:
        bodies, attributes = [given[number].body for number in good], [given[number].attributes for number in good]
    except CorruptMessage as error:
        raise CorruptMessage(f"{where}: {error}{_OR_KEEP}", number=error.number) from error
    next_number = 0
    for columns in (decoder or RecordDecoder()).decode(bodies, attributes):
        records: dict[int, list[Record]] = defaultdict(list)
        for at, record in zip(columns.message_numbers.to_pylist(), columns.records(), strict=True):
            records[good[at]].append(record)
        reasons = {good[one.number]: one.reason for one in columns.bad}
        for number in range(next_number, max([*records, *reasons, next_number - 1]) + 1):
            message = given[number]
            if number in reasons:
                if not keep_bad:
                    raise CorruptMessage(
                        f"{where}, the message with id {message.message_id}: {reasons[number]}{_OR_KEEP}", number=number
                    )
                message = message.marked(reasons[number])
            yield message, records.get(number, [])
            next_number = number + 1
    yield from ((message, []) for message in given[next_number:])
