"""Messages for consumers, decoded from a fetch."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from tubeclient.core import CORE
from tubeclient.errors import CorruptMessage, ProtocolError
from tubeclient.wire.envelope import Part, parse_message
from tubeclient.wire.payload import TAG_KEY, TIME_KEY, checksum, decode_payload, parse_attributes
from tubeclient.wire.proto import broker_pb2


class Message:
    """One message. Its parts are decoded on access.

    Reading a part raises CorruptMessage if the attributes cannot be parsed. If bad messages are kept, a bad one has a
    `bad_reason` instead.
    """

    __slots__ = ("_bad_reason", "_flag", "_id", "_payload")

    def __init__(self, message_id: int, payload: bytes, flag: int, bad_reason: str | None = None) -> None:
        self._id, self._payload, self._flag, self._bad_reason = message_id, payload, flag, bad_reason

    @property
    def message_id(self) -> int:
        """The broker's number for the message: unique within one store, not ordered."""
        return self._id

    @property
    def bad_reason(self) -> str | None:
        """Why the message is bad; None for a good message.

        A bad message may have a wrong checksum, or attributes that cannot be parsed. Then `body` holds all bytes of the
        payload as they came, and attributes, tag and time are empty.
        """
        return self._bad_reason

    @property
    def body(self) -> bytes:
        """The producer's data."""
        return self._parts()[0]

    def marked(self, bad_reason: str) -> Message:
        """Return the same message with a reason why it is bad."""
        return Message(self._id, self._payload, self._flag, bad_reason)

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

    @property
    def payload_bytes(self) -> int:
        """The bytes of all payloads together."""
        return sum(map(len, self.payloads))


NO_MESSAGES = Columns([], [], [])

Damaged: TypeAlias = list[tuple[int, int, int]]
"""Messages that do not match their checksums: number, the checksum that came, that of the payload."""


_FIELDS = "messageId", "checkSum", "payLoadData", "flag"


class Arrived:
    """The messages of an answer, not yet compared with their checksums. The core's `Messages` is the same."""

    def __init__(self, messages: Sequence[broker_pb2.TransferedMessage]) -> None:
        self._messages = messages
        self.ids: Sequence[int] = [message.messageId for message in messages]

    def checked(self, first: int | None) -> tuple[Columns, Damaged]:
        """All messages, or the `first` ones, and the damaged ones of these. CorruptMessage: a field is missing."""
        if not all(all(map(message.HasField, _FIELDS)) for message in self._messages):
            raise CorruptMessage("a message lacks one of its fields")
        columns = Columns([], [], [])
        damaged: Damaged = []
        for number, message in enumerate(self._messages[:first]):
            columns.ids.append(message.messageId)
            columns.payloads.append(message.payLoadData)
            columns.flags.append(message.flag)
            own = checksum(message.payLoadData)
            if message.checkSum != own:
                damaged.append((number, message.checkSum, own))
        return columns, damaged


class Fetched(NamedTuple):
    """The answer to a fetch, by the names of its protobuf message."""

    errCode: int
    errMsg: str
    messages: Arrived
    currOffset: int
    minLimitTime: int
    currDataDlt: int
    """-1 if the broker does not say."""
    requireSlow: bool
    maxOffset: int


def parse_fetched(part: Part) -> Fetched:
    """Parse the answer to a fetch. ProtocolError: it is none."""
    if CORE is not None and (taken := CORE.take_messages(*part)) is not None:
        rest, messages = taken
        with suppress(ProtocolError):  # whose words are to be those of the whole
            return _fetched(parse_message(broker_pb2.GetMessageResponseB2C, rest), messages)
    answer = parse_message(broker_pb2.GetMessageResponseB2C, part.data)
    return _fetched(answer, Arrived(answer.messages))


def _fetched(answer: broker_pb2.GetMessageResponseB2C, messages: Arrived) -> Fetched:
    return Fetched(
        answer.errCode,
        answer.errMsg,
        messages,
        answer.currOffset,
        answer.minLimitTime,
        answer.currDataDlt if answer.HasField("currDataDlt") else -1,
        answer.requireSlow,
        answer.maxOffset,
    )


def checked_columns(arrived: Arrived, first: int | None = None) -> Columns:
    """Take the messages of a fetch, or only the `first` ones. CorruptMessage if one does not match its checksum."""
    columns, damaged = arrived.checked(first)
    for number, _, _ in damaged:
        raise CorruptMessage(f"the message with id {columns.ids[number]} does not match its checksum", number=number)
    return columns


def unchecked_columns(arrived: Arrived, first: int | None = None) -> tuple[Columns, dict[int, str]]:
    """As `checked_columns`, but with messages that do not match their checksums: they have their payload for a body, as
    nothing in them can be trusted. Returns also their numbers in the columns, and why each is bad."""
    columns, damaged = arrived.checked(first)
    if not damaged:
        return columns, {}
    payloads = columns.payloads
    bad = {
        number: f"the checksum is wrong: {came} came with the message, its {len(payloads[number])} bytes have {own}"
        for number, came, own in damaged
    }
    return as_they_came(columns, bad), bad


def as_they_came(columns: Columns, numbers: Container[int]) -> Columns:
    """The same messages; those with these numbers have their payload for a body, and no attributes."""
    flags = [0 if number in numbers else flag for number, flag in enumerate(columns.flags)]
    return Columns(columns.ids, columns.payloads, flags)


def bad_attributes(columns: Columns) -> dict[int, str]:
    """The numbers of messages whose attributes cannot be parsed, and why."""
    bad: dict[int, str] = {}
    for number, (payload, flag) in enumerate(zip(columns.payloads, columns.flags, strict=True)):
        if flag:
            try:
                decode_payload(payload, flag)
            except CorruptMessage as error:
                bad[number] = str(error)
    return bad


def with_tags(columns: Columns, tags: frozenset[str], bad: Mapping[int, str]) -> tuple[Columns, dict[int, str]]:
    """The messages with one of these tags, and the `bad` ones by their new numbers.

    Needed because brokers compare only a 32-bit hash. Bad messages stay: their tags are not known.
    """
    wanted = [number for number, message in enumerate(map(Message, *columns)) if number in bad or message.tag in tags]
    ids, payloads, flags = columns
    left = Columns([ids[at] for at in wanted], [payloads[at] for at in wanted], [flags[at] for at in wanted])
    return left, {new: bad[old] for new, old in enumerate(wanted) if old in bad}


def bodies_of(columns: Columns) -> list[bytes]:
    """The bodies of messages."""
    if not any(columns.flags):
        return list(columns.payloads)
    return [decode_payload(payload, flag)[0] for payload, flag in zip(columns.payloads, columns.flags, strict=True)]
