"""A message to send, checked as far as possible without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from tubeclient.errors import ConfigurationError
from tubeclient.names import tag_name, topic_name
from tubeclient.wire.message_time import message_time_text
from tubeclient.wire.payload import encode_attributes, encode_payload


class OutgoingMessage(NamedTuple):
    """A message ready to be sent. Make one with `of`, which checks it."""

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
        """Make a message.

        Args:
            tag: What consumers' filters compare.
            time: The message's time, as yyyyMMddHHmm or a datetime.

        Raises:
            ConfigurationError: No cluster accepts it: the topic or tag is invalid, the body is empty, or attributes
                have "," or "=". Or no reader could parse the time.
        """
        return message_maker(topic, tag, time, attributes or {})(body)

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
        """Make messages that differ only in their bodies, in order. Like `of`, but faster.

        Raises:
            ConfigurationError: As in `of`, or `bodies` is not a list of bodies.
        """
        if isinstance(bodies, str | bytes | bytearray | memoryview) or not isinstance(bodies, Iterable):
            kind = type(bodies).__name__
            raise ConfigurationError(f"pass the messages to topic {topic} as a list of bodies, not as one {kind}")
        return list(map(message_maker(topic, tag, time, attributes or {}), bodies))


Maker: TypeAlias = Callable[[bytes], OutgoingMessage]
"""Makes messages of bodies; ConfigurationError as of `OutgoingMessage.of`."""


def message_maker(topic: str, tag: str, time: str | datetime, attributes: Mapping[str, str]) -> Maker:
    """What makes messages that differ only in their bodies. Arguments and errors are those of `OutgoingMessage.of`."""
    time = message_time_text(time)
    try:
        return _known(topic, tag, time, *attributes.items())
    except (AttributeError, TypeError):  # no map, or one of what cannot be hashed: that has its own error
        return _new_maker(topic, tag, time, attributes)


@lru_cache(16)
def _known(topic: str, tag: str, time: str, *attributes: tuple[str, str]) -> Maker:
    return _new_maker(topic, tag, time, dict(attributes))


def _new_maker(topic: str, tag: str, time: str, attributes: Mapping[str, str]) -> Maker:
    topic, tag, new = topic_name(topic), _checked_tag(tag), tuple.__new__
    start, flag = encode_payload(b"", encode_attributes(attributes, tag, time))

    def made(body: bytes) -> OutgoingMessage:
        if type(body) is not bytes or not body:
            body = _checked_body(topic, body)
        return new(OutgoingMessage, (topic, start + body, flag, tag, time))  # as the class itself does it, but faster

    return made


def _checked_tag(tag: str) -> str:
    """Return the tag, "" for none; ConfigurationError for one that no reader could filter by."""
    if not isinstance(tag, str):
        raise ConfigurationError(f'the tag of a message must be text, "" for none, not {tag!r}')
    return tag_name(tag) if tag.strip() else ""


def _checked_body(topic: str, body: bytes) -> bytes:
    """Return `body` as bytes; ConfigurationError for anything else, and for an empty one."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ConfigurationError(f"a message to topic {topic} must be bytes, not {type(body).__name__}: encode it")
    if not len(body):
        raise ConfigurationError(f"an empty message cannot be sent to topic {topic}: TubeMQ refuses it")
    return bytes(body)
