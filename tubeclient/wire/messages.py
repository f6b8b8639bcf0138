"""Messages for consumers, decoded from a fetch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress, repeat
from operator import and_
from typing import NamedTuple

from tubeclient.errors import CorruptMessage
from tubeclient.wire.crc32 import crc32
from tubeclient.wire.payload import TAG_KEY, TIME_KEY, decode_payload, parse_attributes
from tubeclient.wire.proto import broker_pb2

__all__ = ["NO_MESSAGES", "Columns", "Message", "MessagePack", "bodies_of", "checked_columns", "with_tags"]

_CHECKSUM_MASK = 0x7FFFFFFF


class Message:
    """One message. Its parts are decoded on access.

    They raise CorruptMessage if the attributes cannot be parsed.
    """

    __slots__ = ("_flag", "_id", "_payload")

    def __init__(self, message_id: int, payload: bytes, flag: int) -> None:
        self._id, self._payload, self._flag = message_id, payload, flag

    @property
    def message_id(self) -> int:
        """The broker's number: unique within one store, not ordered."""
        return self._id

    @property
    def body(self) -> bytes:
        """The producer's data."""
        return self._parts()[0]

    @property
    def attributes(self) -> dict[str, str]:
        """The producer's attributes, without TubeMQ's."""
        return {key: value for key, value in self._all().items() if key not in (TAG_KEY, TIME_KEY)}

    @property
    def tag(self) -> str:
        """The tag that consumers filter by ($msgType$), "" without one."""
        return self._all().get(TAG_KEY, "")

    @property
    def time(self) -> str:
        """The producer's time as yyyyMMddHHmm ($msgTime$), "" without one."""
        return self._all().get(TIME_KEY, "")

    def __repr__(self) -> str:
        return f"<Message {self.message_id}, {len(self._payload)} bytes>"

    def _parts(self) -> tuple[bytes, str]:
        return decode_payload(self._payload, self._flag)

    def _all(self) -> dict[str, str]:
        return parse_attributes(self._parts()[1])


class Columns(NamedTuple):
    """The messages of a fetch as columns of equal length."""

    ids: list[int]
    payloads: list[bytes]
    flags: list[int]


NO_MESSAGES = Columns([], [], [])


class MessagePack:
    """Messages in the order of their index entries; `columns` holds the columns."""

    __slots__ = ()

    columns: Columns

    @property
    def messages(self) -> list[Message]:
        """One object for each message."""
        return list(self)

    @property
    def bodies(self) -> list[bytes]:
        """The producers' data. CorruptMessage if attributes cannot be told from a body."""
        return bodies_of(self.columns)

    @property
    def message_ids(self) -> list[int]:
        """The brokers' ids of the messages."""
        return list(self.columns.ids)

    def __iter__(self) -> Iterator[Message]:
        return map(Message, *self.columns)

    def __len__(self) -> int:
        return len(self.columns.ids)


def checked_columns(wire: broker_pb2.MessageColumns, first: int | None = None) -> Columns:
    """Take the messages of a fetch, or only the `first` ones. CorruptMessage if one does not match its checksum."""
    if not len(wire.messageId) == len(wire.checkSum) == len(wire.payLoadData) == len(wire.flag):
        raise CorruptMessage("a message lacks one of its fields")
    ids, checksums, payloads, flags = (
        wire.messageId[:first],
        wire.checkSum[:first],
        wire.payLoadData[:first],
        wire.flag[:first],
    )
    found = list(map(and_, map(crc32, payloads), repeat(_CHECKSUM_MASK)))
    if found != checksums:
        number = next(n for n, (one, other) in enumerate(zip(found, checksums, strict=True)) if one != other)
        raise CorruptMessage(f"the message with id {ids[number]} does not match its checksum", number=number)
    return Columns(ids, payloads, flags)


def with_tags(columns: Columns, tags: frozenset[str]) -> Columns:
    """The messages with one of these tags. Needed because brokers compare only a 32-bit hash."""
    wanted = [message.tag in tags for message in map(Message, *columns)]
    ids, payloads, flags = columns
    return Columns(list(compress(ids, wanted)), list(compress(payloads, wanted)), list(compress(flags, wanted)))


def bodies_of(columns: Columns) -> list[bytes]:
    """The bodies of messages."""
    if not any(columns.flags):
        return list(columns.payloads)
    return [decode_payload(payload, flag)[0] for payload, flag in zip(columns.payloads, columns.flags, strict=True)]
