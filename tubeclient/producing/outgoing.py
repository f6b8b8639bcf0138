"""A message to send, checked as far as possible without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from itertools import repeat
from types import MappingProxyType
from typing import NamedTuple

from tubeclient.errors import ConfigurationError
from tubeclient.names import tag_name, topic_name
from tubeclient.wire.message_time import message_time_text
from tubeclient.wire.payload import encode_attributes, encode_payload


class OutgoingMessage(NamedTuple):
    """A message ready to be sent; make one with `of`, which checks it."""

    topic: str
    payload: bytes
    """Attributes and body on the wire; a topic's limit applies to this."""
    flag: int
    """TubeMQ's flag for a payload with attributes."""
    tag: str
    time: str

    @classmethod
    def of(
        cls,
        topic: str,
        body: bytes,
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
    ) -> OutgoingMessage:
        """Return the message. `tag` is for consumers' filters; `time` is yyyyMMddHHmm or a datetime.

        ConfigurationError for what no cluster accepts: an invalid topic or tag, an empty body, attributes with "," or
        "=", and for a time that no reader could parse.
        """
        topic, start, flag, tag, time = _named(topic, tag, message_time_text(time), attributes or {})
        return cls(topic, start + _checked_body(topic, body), flag, tag, time)

    @classmethod
    def of_each(
        cls,
        topic: str,
        bodies: Iterable[bytes],
        *,
        tag: str = "",
        time: str | datetime = "",
        attributes: Mapping[str, str] | None = None,
    ) -> list[OutgoingMessage]:
        """Return messages that differ only in their bodies, in order; like `of`, but faster."""
        if isinstance(bodies, str | bytes | bytearray | memoryview) or not isinstance(bodies, Iterable):
            kind = type(bodies).__name__
            raise ConfigurationError(f"messages to topic {topic} are given as a list of bodies, not as one {kind}")
        topic, start, flag, tag, time = _named(topic, tag, message_time_text(time), attributes or {})
        payloads = [start + (body if type(body) is bytes and body else _checked_body(topic, body)) for body in bodies]
        return list(map(cls._make, zip(repeat(topic), payloads, repeat(flag), repeat(tag), repeat(time))))


def _named(topic: str, tag: str, time: str, attributes: Mapping[str, str]) -> tuple[str, bytes, int, str, str]:
    """What messages with these names have in common: topic, how their payloads begin, flag, tag and time."""
    if type(attributes) is dict:
        with suppress(TypeError):  # something cannot be hashed, which is wrong: let it have its own error
            return _known(topic, tag, time, *attributes.items())
    topic, tag = topic_name(topic), _checked_tag(tag)
    return topic, *encode_payload(b"", encode_attributes(attributes, tag, time)), tag, time


@lru_cache(16)
def _known(topic: str, tag: str, time: str, *attributes: tuple[str, str]) -> tuple[str, bytes, int, str, str]:
    return _named(topic, tag, time, MappingProxyType(dict(attributes)))


def _checked_tag(tag: str) -> str:
    """Return the tag, "" for none; ConfigurationError for one that no reader could filter by."""
    if not isinstance(tag, str):
        raise ConfigurationError(f'the tag of a message must be a text, "" for none; not {tag!r}')
    return tag_name(tag) if tag.strip() else ""


def _checked_body(topic: str, body: bytes) -> bytes:
    """Return `body` as bytes; ConfigurationError for anything else, and for an empty one."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ConfigurationError(f"a message to topic {topic} must be bytes, not {type(body).__name__}: encode it")
    if not len(body):
        raise ConfigurationError(f"an empty message cannot be sent to topic {topic}: TubeMQ refuses it")
    return bytes(body)
