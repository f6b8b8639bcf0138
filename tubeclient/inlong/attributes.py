"""The attributes of InLong's records: `k=v` joined by `&`, with the stream's name and the time of the data.

Names and precedence as in InLong's sort SDK (MessageDeserializer.decodeInlongMsg): `t` overrides `dt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Final, NamedTuple

from tubeclient.errors import ConfigurationError, CorruptMessage

GROUP_ID: Final = "groupId"
STREAM_ID: Final = "streamId"
DATA_TIME: Final = "dt"
_TIME_TEXT: Final = "t"

MESSAGE_GROUP_ID: Final = "inlongGroupId"
MESSAGE_STREAM_ID: Final = "inlongStreamId"
_MESSAGE_TIME: Final = "msgTime"
"""The names that DataProxy uses in the attributes of a TubeMQ message."""

_TIME_FORMATS: Final = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M"}
"""By the number of digits read: the longest that the text has. Further digits are ignored."""
_MAX_MILLIS: Final = (1 << 63) // 1000
"""Spark's timestamps are microseconds in 64 bits."""


class Origin(NamedTuple):
    """Where a record comes from."""

    group_id: str | None
    """InLong's groupId and streamId; None in a message that did not come through InLong."""
    stream_id: str | None
    data_time_ms: int | None
    """Milliseconds since 1970; None if nothing names a time."""

    @classmethod
    def of_message(cls, message: Mapping[str, str]) -> Origin:
        """Parse the attributes of a message whose body is the record.

        Raises:
            CorruptMessage: The time is not a number.
        """
        time = message.get(_MESSAGE_TIME)
        time_ms = None if time is None else _read_millis(time, _MESSAGE_TIME)
        return cls(message.get(MESSAGE_GROUP_ID), message.get(MESSAGE_STREAM_ID), time_ms)

    @classmethod
    def of(cls, attributes: Mapping[str, str], message: Mapping[str, str], zone: tzinfo) -> Origin:
        """Parse the attributes of a record.

        Args:
            attributes: The attributes of the record.
            message: The attributes of its message, which give a missing groupId and streamId.
            zone: The time zone of times written as text.

        Raises:
            CorruptMessage: A name is missing, or a time cannot be parsed.
        """
        group_id = attributes.get(GROUP_ID, message.get(MESSAGE_GROUP_ID))
        stream_id = attributes.get(STREAM_ID, message.get(MESSAGE_STREAM_ID))
        if group_id is None or stream_id is None:
            missing = GROUP_ID if group_id is None else STREAM_ID
            raise CorruptMessage(f"the attributes of a record lack {missing}")
        time_ms = None
        if (text := attributes.get(_TIME_TEXT)) is not None:
            time_ms = parse_time(text, zone)
        elif (text := attributes.get(DATA_TIME)) is not None:
            time_ms = _read_millis(text, DATA_TIME)
        return cls(group_id, stream_id, time_ms)


def parse_pairs(text: str) -> dict[str, str]:
    """Return the pairs of a text; the last value of a repeated key counts. CorruptMessage: a piece has no `=`."""
    try:
        return dict(piece.split("=", 1) for piece in text.split("&") if piece)
    except ValueError:
        raise CorruptMessage("the attributes of a record are not key=value pairs joined by &") from None


def attribute_text(attributes: Mapping[str, str]) -> str:
    """Return the text of attributes. ConfigurationError for a key or value that a parser would not return unchanged."""
    for key, value in attributes.items():
        if not key or "=" in key or "&" in key or "&" in value:
            raise ConfigurationError(
                f"the attribute {key!r}={value!r} cannot be in an InLong pack: keys must not be empty or contain '=' "
                "or '&', and values must not contain '&'"
            )
    return "&".join(f"{key}={value}" for key, value in attributes.items())


def read_java_text(raw: bytes, at: int) -> str:
    """Return the text that Java's DataOutput.writeUTF wrote as `raw`, at byte `at` of its message: UTF-8, where NUL has
    two bytes and each half of a surrogate pair three. CorruptMessage: it is no such text."""
    try:
        halves = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return halves if halves.isascii() else halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeError:
        raise CorruptMessage(f"the attributes at byte {at} are not text") from None


def write_java_text(text: str) -> bytes:
    """Return the text as Java's DataOutput.writeUTF writes it, without its length."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(high << 8 | low) for high, low in zip(units[::2], units[1::2], strict=True))
    return halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _read_millis(text: str, name: str) -> int:
    """Return the milliseconds since 1970 in the text of the attribute `name`. CorruptMessage if it has none."""
    try:
        millis = int(text)
    except ValueError:
        raise CorruptMessage(f"the time {name} is not a number of milliseconds") from None
    return checked_millis(millis, name)


def checked_millis(millis: int, name: str) -> int:
    """Return `millis` since 1970, the attribute `name`. CorruptMessage: it is outside of Spark's timestamps."""
    if abs(millis) >= _MAX_MILLIS:
        raise CorruptMessage(f"the time {name} is too large for a timestamp")
    return millis


def parse_time(text: str, zone: tzinfo) -> int:
    """Return the milliseconds since 1970 of the attribute `t`, a time in `zone`. CorruptMessage: it is none."""
    text = text.strip()
    digits = text[: max((count for count in _TIME_FORMATS if count <= len(text)), default=0)]
    try:
        if not digits.isascii() or not digits.isdigit():
            raise ValueError
        return int(datetime.strptime(digits, _TIME_FORMATS[len(digits)]).replace(tzinfo=zone).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise CorruptMessage(f"the time {_TIME_TEXT} is not yyyyMMdd, yyyyMMddHH or yyyyMMddHHmm") from None
