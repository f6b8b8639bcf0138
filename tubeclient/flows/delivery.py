"""What an application is given of a partition: packs of messages, and how far it has been read."""

from __future__ import annotations

from dataclasses import dataclass

from tubeclient.keys import PartitionKey
from tubeclient.wire.messages import Columns, MessagePack

__all__ = ["Delivery", "Position"]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition has been read; index offsets (28 bytes a message of its store)."""

    confirmed: int
    """Where the group goes on after a restart: everything before it was confirmed."""
    fetched: int
    """Everything before it was handed out: behind the pack that is out, `confirmed` where none is. Exact where the
    store has one partition and nothing is filtered; else the pack may reach further."""
    end: int
    """The broker's end of the data, as it said last."""
    updated_ms: float
    """When the broker last said anything of it, milliseconds since 1970."""


class Delivery(MessagePack):
    """A pack of messages of one partition, in order, to be confirmed once they are dealt with.

    Iterating gives `Message` objects. `bodies` and `message_ids` are the same as columns, which is faster.
    """

    __slots__ = ("columns", "end", "lag_bytes", "number", "partition", "settled", "start")

    def __init__(
        self,
        number: int,
        partition: PartitionKey,
        start: int,
        end: int,
        lag_bytes: int,
        columns: Columns,
    ) -> None:
        self.number = number
        """Counts the packs of a consumer."""
        self.partition = partition
        self.start = start
        """Index offset at which the pack begins; where it ends is known when it is confirmed."""
        self.end = end
        """The end of the partition's data, not of the pack, as an index offset."""
        self.lag_bytes = lag_bytes
        """Bytes of messages behind this pack, -1 where the broker does not say."""
        self.settled = False
        """Whether it was confirmed, or given back to be read again."""
        self.columns = columns

    def __repr__(self) -> str:
        return f"<Delivery {self.number} of {self.partition}, {len(self)} messages from {self.start}>"
