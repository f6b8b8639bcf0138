"""Messages as consumers see them, on top of what a fetch carried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from tubeclient.errors import CorruptMessage
from tubeclient.wire.payload import ATTRIBUTE_FLAG, TAG_KEY, TIME_KEY, decode_payload, parse_attributes
from tubeclient.wire.proto import broker_pb2

__all__ = ["Message", "bodies_of", "check_messages", "with_tags"]


class Message:
    """One message. Its parts are taken out of the bytes when they are asked for.

    CorruptMessage where the attributes inside cannot be taken apart.
    """

    __slots__ = ("_wire",)

    def __init__(self, wire: broker_pb2.TransferedMessage) -> None:
        self._wire = wire

    @property
    def message_id(self) -> int:
        """The broker's number for it: unique within one store, in no order."""
        return self._wire.messageId

    @property
    def body(self) -> bytes:
        """What the producer sent."""
        return self._parts()[0]

    @property
    def attributes(self) -> dict[str, str]:
        """The producer's own attributes."""
        return {key: value for key, value in self._all().items() if key not in (TAG_KEY, TIME_KEY)}

    @property
    def tag(self) -> str:
        """What consumers filter by ($msgType$), "" without one."""
        return self._all().get(TAG_KEY, "")

    @property
    def time(self) -> str:
        """The producer's time as yyyyMMddHHmm ($msgTime$), "" without one."""
        return self._all().get(TIME_KEY, "")

    def __repr__(self) -> str:
        return f"<Message {self.message_id}, {len(self._wire.payLoadData)} bytes>"

    def _parts(self) -> tuple[bytes, str]:
        return decode_payload(self._wire.payLoadData, self._wire.flag)

    def _all(self) -> dict[str, str]:
        return parse_attributes(self._parts()[1])


def check_messages(messages: Iterable[broker_pb2.TransferedMessage]) -> None:
    """CorruptMessage for the first message whose payload does not match its checksum."""
    for message in messages:
        if crc32(message.payLoadData) & 0x7FFFFFFF != message.checkSum:
            raise CorruptMessage(f"the message with id {message.messageId} does not match its checksum")


def with_tags(
    messages: Iterable[broker_pb2.TransferedMessage], tags: frozenset[str]
) -> list[broker_pb2.TransferedMessage]:
    """The messages with one of these tags: brokers compare a 32-bit hash only."""
    return [message for message in messages if Message(message).tag in tags]


def bodies_of(messages: Sequence[broker_pb2.TransferedMessage]) -> list[bytes]:
    """The bodies of messages."""
    return [
        decode_payload(message.payLoadData, message.flag)[0] if message.flag & ATTRIBUTE_FLAG else message.payLoadData
        for message in messages
    ]
