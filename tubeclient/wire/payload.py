"""The payload of a message: body, attributes, checksum.

With bit 0 of the flag set, a payload is an int32 length, that many bytes of attribute text, and the body. Otherwise it
is the body. Attribute text is `key=value` pairs joined by commas, TubeMQ's own keys first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from zlib import crc32

from tubeclient.errors import ConfigurationError, CorruptMessage

ATTRIBUTE_FLAG = 1
TAG_KEY = "$msgType$"
TIME_KEY = "$msgTime$"
_OWN_KEYS = frozenset({TAG_KEY, TIME_KEY})

_LENGTH = struct.Struct(">i")


def checksum(payload: bytes) -> int:
    """CRC-32 of the whole payload without its sign bit, as brokers store it."""
    return crc32(payload) & 0x7FFFFFFF


def encode_attributes(attributes: Mapping[str, str], tag: str = "", time: str = "") -> str:
    """The attribute text, with tag and time (yyyyMMddHHmm). ConfigurationError for what no reader could parse."""
    if not isinstance(attributes, Mapping):
        kind = type(attributes).__name__
        raise ConfigurationError(f"attributes must map text to text, such as {{'user': '7'}}, not a {kind}")
    pairs = [(TAG_KEY, tag)] * bool(tag) + [(TIME_KEY, time)] * bool(time)
    for key in attributes:
        if not key or key in (TAG_KEY, TIME_KEY):
            raise ConfigurationError(f"the attribute {key!r} cannot be sent: it is empty, {TAG_KEY} or {TIME_KEY}")
    pairs += attributes.items()
    for key, value in pairs:
        if not (isinstance(key, str) and isinstance(value, str)):
            raise ConfigurationError(f"the attribute {key!r}={value!r} cannot be sent: keys and values must be text")
        if any(mark in key + value for mark in ",=") or _has_surrogate(key + value):
            raise ConfigurationError(
                f"the attribute {key!r}={value!r} cannot be sent: keys and values must not contain ',', '=' or "
                "surrogates"
            )
    return ",".join(map("=".join, pairs))


def parse_attributes(text: str) -> dict[str, str]:
    """Return the attributes of a text, including TubeMQ's own. A piece without '=' is a key with an empty value.

    If a key is repeated, empty values are ignored; the last value of TubeMQ's own keys wins, and the first of others,
    as in the Java client's getMsgType, getMsgTime and getAttrValue."""
    pairs = [piece.partition("=") for piece in text.split(",") if piece]
    found = {key: value for key, _, value in pairs}
    if len(found) < len(pairs):
        for key, _, value in reversed(pairs):
            if value and (key not in _OWN_KEYS or not found[key]):
                found[key] = value
    return found


def encode_payload(body: bytes, attributes: str = "") -> tuple[bytes, int]:
    """Return (payload, flag). The flag's bit is set only with an attribute text; without one the payload is the
    body."""
    if not attributes:
        return body, 0
    text = attributes.encode()
    return _LENGTH.pack(len(text)) + text + body, ATTRIBUTE_FLAG


def decode_payload(payload: bytes, flag: int) -> tuple[bytes, str]:
    """Return (body, attribute text); CorruptMessage if the length inside is wrong."""
    if not flag & ATTRIBUTE_FLAG:
        return payload, ""
    if len(payload) < _LENGTH.size:
        raise CorruptMessage(f"a payload of {len(payload)} bytes that should start with the length of its attributes")
    length = _LENGTH.unpack_from(payload)[0]
    body_start = _LENGTH.size + length
    if length < 0 or body_start > len(payload):
        raise CorruptMessage(f"attributes of {length} bytes in a payload of {len(payload)}")
    try:
        return payload[body_start:], payload[_LENGTH.size : body_start].decode()
    except UnicodeDecodeError:
        raise CorruptMessage("attributes that are not UTF-8") from None


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def java_string_hash(text: str) -> int:
    """Java's String.hashCode(), signed 32 bit: brokers store it for a tag."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
