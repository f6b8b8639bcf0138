"""Identifiers: brokers, partitions, stores and ranges of offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tubeclient.errors import ConfigurationError
from tubeclient.names import topic_name

INDEX_ENTRY_BYTES = 28
"""Bytes of one entry of a store's index; every offset is a multiple of it (DataStoreUtils.STORE_INDEX_HEAD_LEN)."""

MAX_NODES = 10_000
"""Of one group. Each is a client at the master, and one process may hold all of them."""

MAX_STORE_PARTITIONS = 10_000
"""Partition ids of store s start at s * 10 000 (TBaseConstants.META_STORE_INS_BASE)."""

MAX_OFFSET = (1 << 63) - 1
"""TubeMQ's offsets are signed 64-bit numbers."""

MAX_STORES = ((1 << 31) - 1) // MAX_STORE_PARTITIONS
"""Partition ids are 32-bit numbers."""


_BLANKS = " \t\n\r\f\v"
"""What int() passes over; strip() also takes separators such as U+001E away, which int() refuses."""


def is_plain_number(text: str) -> bool:
    """Whether `text` is 1 to 19 ASCII digits: int() takes other digits too, and refuses thousands of them."""
    return text.isascii() and text.isdecimal() and len(text) < 20


def is_int32(text: str) -> bool:
    """Whether `text` is a number from 0 to 2^31 - 1 in plain digits, like TubeMQ's ids; surrounding blanks are
    allowed."""
    digits = text.strip(_BLANKS)
    return len(digits) <= 10 and digits.isascii() and digits.isdecimal() and int(digits) < 1 << 31


class StoreKey(NamedTuple):
    """One store of a topic on one broker: the partitions that share one index. Sorts by number, text, number."""

    broker_id: int
    topic: str
    store_id: int

    def __str__(self) -> str:
        return f"{self.broker_id}:{self.topic}:{self.store_id}"


class StoreBounds(NamedTuple):
    """The index offsets that a store holds now: [min_offset, max_offset), the same for all its partitions.

    Brokers let data expire before its index. `min_offset` is the first entry whose message is still there, except where
    the index's own bounds are meant.
    """

    min_offset: int
    max_offset: int

    def nearest(self, offset: int) -> int:
        """Return the offset within the bounds that is nearest to `offset`."""
        return min(max(offset, self.min_offset), self.max_offset)

    def rows_behind(self, position: int | None) -> int:
        """Return the most messages that the store can hold for one of its partitions from `position` on.

        Partitions of a store share its index.

        Args:
            position: An index offset. None, a partition without a position, has all messages left. One past the end has
                none.
        """
        return (self.max_offset - self.nearest(position or 0)) // INDEX_ENTRY_BYTES


class StoreFiles(NamedTuple):
    """A broker's report about a store's files."""

    index_bounds: StoreBounds
    """The index's own bounds. Its first entries may have no message any more."""
    data_min: int
    """The first byte of data that is still there. Above 0, data has expired; below, the broker does not say."""
    last_partition: int | None = None
    """The highest partition id of the store on this broker. None if the broker does not say."""


class PartitionKey(NamedTuple):
    """A partition in the form of TubeMQ's client-balance calls: "brokerId:topic:partitionId".

    Sorts by number, text, number.
    """

    broker_id: int
    topic: str
    partition_id: int

    @classmethod
    def parse(cls, text: str) -> PartitionKey:
        """Parse "brokerId:topic:partitionId".

        Raises:
            ConfigurationError: It is another text.
        """
        parts = text.strip().split(":") if isinstance(text, str) else []
        if len(parts) != 3 or not (is_int32(parts[0]) and parts[1].strip() and is_int32(parts[2])):
            raise ConfigurationError(
                f"{text!r} is not a partition key; write brokerId:topic:partitionId, as in 1:clicks:10000"
            )
        return cls(int(parts[0]), topic_name(parts[1]), int(parts[2]))

    @property
    def store(self) -> StoreKey:
        return StoreKey(self.broker_id, self.topic, self.partition_id // MAX_STORE_PARTITIONS)

    def __str__(self) -> str:
        return f"{self.broker_id}:{self.topic}:{self.partition_id}"


class _Range(NamedTuple):
    partition: PartitionKey
    start: int
    end: int


def is_index_offset(offset: int) -> bool:
    """Whether an index can have this offset: each entry has 28 bytes."""
    return 0 <= offset <= MAX_OFFSET and offset % INDEX_ENTRY_BYTES == 0


def checked_offset(value: object, where: str) -> int:
    """Return `value` if it is an index offset, otherwise raise ConfigurationError. `where` names it in the error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"the offset {value!r} of {where} is not a whole number")
    if value > MAX_OFFSET:
        raise ConfigurationError(f"the offset {value} of {where} is more than {MAX_OFFSET}, TubeMQ's maximum")
    if not is_index_offset(value):
        raise ConfigurationError(
            f"the offset {value} of {where} is not 0 or a positive multiple of {INDEX_ENTRY_BYTES}; TubeMQ counts "
            f"offsets in bytes of the index, {INDEX_ENTRY_BYTES} for each message"
        )
    return value


class OffsetRange(_Range):
    """The messages of one partition with index offsets in [start, end), both multiples of 28 bytes.

    Raises:
        ConfigurationError: An offset is another number, or the range ends before it starts.
    """

    __slots__ = ()

    def __new__(cls, partition: PartitionKey, start: int, end: int) -> OffsetRange:
        for name, offset in (("start", start), ("end", end)):
            # Ranges come by the thousand, so make texts only for errors.
            if not isinstance(offset, int) or not is_index_offset(offset):
                checked_offset(offset, f"the {name} of a range of partition {partition}")
        if end < start:
            raise ConfigurationError(f"the range [{start}, {end}) of partition {partition} ends before it starts")
        return super().__new__(cls, partition, start, end)

    @property
    def max_messages(self) -> int:
        """The most messages in the range. Exact if the store has one partition and nothing is filtered."""
        return (self.end - self.start) // INDEX_ENTRY_BYTES

    def __str__(self) -> str:
        return f"{self.partition}[{self.start}, {self.end})"


def joined_address(host: str, port: int) -> str:
    """ "host:port"; an IPv6 address, which has colons, is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class BrokerInfo(NamedTuple):
    """A broker in the master's list."""

    broker_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        return joined_address(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.broker_id}:{self.address}"


class TopicLayout(NamedTuple):
    """A topic's layout on one broker.

    Attributes:
        subscribable: False while the broker takes no readers.
    """

    topic: str
    broker_id: int
    stores: int
    partitions_per_store: int
    subscribable: bool = True

    def partitions(self) -> list[PartitionKey]:
        """Return all configured partitions of the topic on this broker, in order."""
        return [
            PartitionKey(self.broker_id, self.topic, store * MAX_STORE_PARTITIONS + n)
            for store in range(self.stores)
            for n in range(self.partitions_per_store)
        ]


def rows_behind(ends: Mapping[PartitionKey, int], positions: Mapping[PartitionKey, int]) -> int:
    """The most rows between `positions` and `ends`, index offsets of partitions; a missing position counts as 0."""
    return sum(rows_behind_by_store(ends, positions).values())


def rows_behind_by_store(
    ends: Mapping[PartitionKey, int], positions: Mapping[PartitionKey, int]
) -> dict[StoreKey, int]:
    """`rows_behind` by store.

    A store counts by its partition that is furthest behind: its partitions share one index.
    """
    by_store: dict[StoreKey, int] = {}
    for partition, end in ends.items():
        behind = (end - positions.get(partition, 0)) // INDEX_ENTRY_BYTES
        by_store[partition.store] = max(by_store.get(partition.store, 0), behind)
    return by_store
