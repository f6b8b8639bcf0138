"""What a fetch gives to users: messages by object or by column, and which of them are bad where these are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, Literal, get_args

from tubeclient.errors import ConfigurationError, CorruptMessage
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey
from tubeclient.wire.messages import Columns, Message, as_they_came, bad_attributes, bodies_of

if TYPE_CHECKING:
    from tubeclient.inlong import Record, RecordDecoder


BadMessages = Literal["fail", "keep"]
"""What to do with messages that do not match their checksums or cannot be parsed: raise CorruptMessage, or give them
with a reason."""


def check_bad_messages(choice: BadMessages) -> None:
    """ConfigurationError if there is no such choice."""
    if choice not in get_args(BadMessages):
        raise ConfigurationError(f"bad_messages must be fail or keep, not {choice!r}")


class MessagePack:
    """Messages in the order of their index entries; `columns` holds the columns."""

    __slots__ = ()

    partition: PartitionKey
    start: int
    columns: Columns
    damaged: Mapping[int, str] | None
    """With `bad_messages="keep"` the numbers of messages that were found to be bad when they came, and why. None with
    "fail"."""

    @property
    def bad(self) -> dict[int, str]:
        """The numbers of bad messages in the pack, from 0, and why each is bad. Else empty.

        Bad messages are in a pack only with `bad_messages="keep"`.
        """
        return {} if self.damaged is None else {**self.damaged, **bad_attributes(self.columns)}

    @property
    def messages(self) -> list[Message]:
        """One object for each message."""
        return list(self)

    @property
    def bodies(self) -> list[bytes]:
        """The producers' data; for a bad message, its payload.

        Raises:
            CorruptMessage: Attributes cannot be told from a body, and bad messages are not kept.
        """
        bad = self.bad
        return bodies_of(as_they_came(self.columns, bad) if bad else self.columns)

    @property
    def message_ids(self) -> list[int]:
        """The brokers' ids of the messages."""
        return list(self.columns.ids)

    def records(self, decoder: RecordDecoder | None = None) -> Iterator[tuple[Message, list[Record]]]:
        """Yield each message with the records that InLong packed into it. Needs the extra `inlong`.

        With `bad_messages="keep"`, a message that cannot be unpacked has a `bad_reason` and no records.

        Args:
            decoder: What messages hold, and how large they may get. Without one, each is a pack.

        Raises:
            CorruptMessage: A message cannot be unpacked, and bad messages are not kept.
        """
        from tubeclient.inlong.records import records_of_messages

        where = f"partition {self.partition}, in the pack from offset {self.start} on"
        return records_of_messages(self, where, decoder, keep_bad=self.damaged is not None)

    def __iter__(self) -> Iterator[Message]:
        bad = self.bad
        if not bad:
            return map(Message, *self.columns)
        return map(Message, *as_they_came(self.columns, bad), map(bad.get, count()))

    def __len__(self) -> int:
        return len(self.columns.ids)


READINGS: Final = 5
"""How often a pack is read that comes differently each time."""


class DamageCheck:
    """Tells damage on the way from damage on a broker's disk: only the latter comes again with the same bytes. So the
    same range gives the same messages, whoever reads it.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[bytes, str]] = {}
        self._readings = 0

    def came_again(self, columns: Columns, damaged: Mapping[int, str]) -> bool:
        """Whether all damaged messages of a pack came so in the last reading. If not, their pack must be read again.

        CorruptMessage after `READINGS` readings of which each had other bytes than the one before.
        """
        found = {columns.ids[number]: (columns.payloads[number], reason) for number, reason in damaged.items()}
        if all(self._seen.get(message_id) == came for message_id, came in found.items()):
            self._seen, self._readings = {}, 0
            return True
        self._seen = found
        self._readings += 1
        if self._readings < READINGS:
            return False
        self._seen, self._readings = {}, 0
        number, reason = next(iter(damaged.items()))
        raise CorruptMessage(
            f"the message with id {columns.ids[number]} had different bytes in each of {READINGS} reads: {reason}",
            number=number,
        )


_NONE: frozenset[int] = frozenset()


class PackCheck:
    """Checks the packs of a partition as they come. `alone`: each index entry is one of its messages, unless the broker
    lost it."""

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone
        self.contradictions = 0
        """How often the present pack was doubted."""
        self._before: tuple[int, frozenset[int]] = 0, _NONE
        """Start and ids of the pack that was well last."""
        self._contradicted: tuple[int, Sequence[int]] | None = None

    def contradiction(self, start: int, ids: Sequence[int], *, lacking: int = 0) -> str:
        """Why the pack from offset `start` on must be read again, "" if it is well. `ids` are those of its messages;
        `lacking` index entries up to its end gave none.

        A pack may have another end when it comes again: that depends on what the broker holds then.
        """
        different = frozenset(ids)
        reason = ""
        if len(different) < len(ids):
            reason = "a pack has a message twice"
        elif start > self._before[0] and ids and ids[0] in self._before[1]:  # all ids would cost half as much again
            reason = "a pack began with a message of the pack before"
        elif self._alone and lacking > 0:
            reason = f"{lacking} index entries came without a message, in a store of one partition"
        if reason and not self._came_again(start, ids):
            self._contradicted = start, ids
            self.contradictions += 1
            return reason
        self._before, self._contradicted, self.contradictions = (start, different), None, 0
        return ""

    def _came_again(self, start: int, ids: Sequence[int]) -> bool:
        if self._contradicted is None or self._contradicted[0] != start:
            return False
        common = min(len(ids), len(self._contradicted[1]))
        return ids[:common] == self._contradicted[1][:common]


def corrupt_message(place: OffsetRange, what: object) -> CorruptMessage:
    """The error for the corrupt message at `place`."""
    left_out = place.max_messages - 1
    others = f", which skips at most {left_out} other messages" if left_out else ""
    return CorruptMessage(
        f"partition {place.partition}, offsets [{place.start}, {place.end}): {what}. Read again: the message may "
        "have been damaged in transit. If the error comes back, the message was sent that way or is damaged on the "
        f"broker's disk. Then read this partition up to offset {place.start} (endingOffsets in a batch read), and on "
        f"from offset {place.end} (startingOffsets, with a new checkpoint if there is one){others}",
        number=what.number if isinstance(what, CorruptMessage) else None,
    )


def counted_place(partition: PartitionKey, start: int, end: int, messages: int, number: int) -> OffsetRange:
    """The smallest range that contains message `number`, from 0, of a pack of so many messages: each has an index
    entry."""
    behind = messages - number - 1
    return OffsetRange(partition, start + number * INDEX_ENTRY_BYTES, end - behind * INDEX_ENTRY_BYTES)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition has been read. Numbers are index offsets (28 bytes per message of its store)."""

    confirmed: int
    """Where the group continues after a restart: everything before it was confirmed."""
    fetched: int
    """Everything before it was delivered: the end of the unconfirmed pack, or `confirmed`. Exact if the store has one
    partition and nothing is filtered; otherwise the pack may reach further."""
    end: int
    """The end of the data in the broker's last answer."""
    updated_ms: float
    """The time of the broker's last answer about it, milliseconds since 1970."""


class Delivery(MessagePack):
    """A pack of messages of one partition, in order. Confirm it when they are processed.

    Iterating gives `Message` objects. `bodies` and `message_ids` are columns, which are faster.
    """

    __slots__ = ("columns", "counted", "damaged", "end", "lag_bytes", "number", "partition", "settled", "start")

    def __init__(
        self,
        number: int,
        partition: PartitionKey,
        start: int,
        end: int,
        lag_bytes: int,
        columns: Columns,
        damaged: Mapping[int, str] | None = None,
        *,
        counted: bool = False,
    ) -> None:
        self.number = number
        """Counts the packs of a consumer."""
        self.partition = partition
        self.start = start
        """Index offset of the pack's start; its end is known when it is confirmed."""
        self.end = end
        """The end of the partition's data, not of the pack, as an index offset."""
        self.lag_bytes = lag_bytes
        """Bytes of messages after this pack, -1 if the broker does not say."""
        self.settled = False
        """Whether it was confirmed, or returned to be read again."""
        self.columns = columns
        self.damaged = damaged
        self.counted = counted
        """Whether each index entry from `start` on is the next message, so that offsets can be counted. Not if other
        partitions share the store, if messages are filtered, or if some may have expired."""

    def received(self) -> Iterator[ReceivedMessage]:
        """Yield the messages, each with where it came from."""
        for number, message in enumerate(self):
            offset = self.start + number * INDEX_ENTRY_BYTES if self.counted else None
            yield ReceivedMessage(message, self, offset)

    def __repr__(self) -> str:
        return f"<Delivery {self.number} of {self.partition}, {len(self)} messages from {self.start}>"


class ReceivedMessage(Message):
    """A message, with the pack that it came in. See `PullConsumer.messages`."""

    __slots__ = ("delivery", "offset")

    def __init__(self, message: Message, delivery: Delivery, offset: int | None) -> None:
        super().__init__(message._id, message._payload, message._flag, message._bad_reason)
        self.delivery = delivery
        """Its pack; all messages of a pack are confirmed together."""
        self.offset = offset
        """Its index offset. None if it cannot be counted: then it lies behind `delivery.start`."""

    @property
    def partition(self) -> PartitionKey:
        """The partition where the message was stored."""
        return self.delivery.partition
