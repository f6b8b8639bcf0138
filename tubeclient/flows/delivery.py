"""What an application gets of a partition: packs of messages, and how far it has been read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tubeclient.flows.message_pack import MessagePack
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.wire.messages import Columns, Message

__all__ = ["Delivery", "Position", "ReceivedMessage"]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition has been read; index offsets (28 bytes per message of its store)."""

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
    """A pack of messages of one partition, in order; confirm it when they are processed.

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
        """Its messages, each with where it came from."""
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
        """Where it was stored."""
        return self.delivery.partition
