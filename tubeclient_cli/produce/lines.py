"""From lines to messages. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple

from tubeclient.errors import ConfigurationError
from tubeclient.producing.outgoing import OutgoingMessage

__all__ = ["Defaults", "Parse", "parser_of"]

Parse = Callable[[bytes], OutgoingMessage]
"""A line without its end to a message. ConfigurationError says what is wrong with it."""

_FIELDS: Final = frozenset({"value", "base64", "tag", "attributes", "time"})
# What `tubeclient consume --json` tells besides; a message gets these anew.
_OF_READERS: Final = frozenset({"partition", "offset", "packStart", "packEnd", "messageId", "inlong"})
_AS_THEY_ARE: Final = "to send lines as they are, leave out --format json"


class Defaults(NamedTuple):
    """What messages have unless their line says otherwise."""

    tag: str = ""
    attributes: Mapping[str, str] = {}
    zone: tzinfo = UTC
    """Of the producers' clocks: messages get the present time."""


def parser_of(form: str, topic: str, defaults: Defaults) -> Parse:
    """The parser of a --format. ConfigurationError for another form, and for defaults that no message can have."""
    tag, attributes, zone = defaults
    OutgoingMessage.of(topic, b"x", tag=tag, attributes=attributes)
    if form == "lines":
        return lambda line: OutgoingMessage.of(topic, line, tag=tag, time=datetime.now(zone), attributes=attributes)
    if form == "json":
        return lambda line: _of_json(line, topic, defaults)
    raise ConfigurationError(f"--format is {form!r}; write lines or json")


def _of_json(line: bytes, topic: str, defaults: Defaults) -> OutgoingMessage:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"it is not JSON: {error}; {_AS_THEY_ARE}") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f'it is not a JSON object such as {{"value": "hello"}}; {_AS_THEY_ARE}')
    if "bad" in found:
        raise ConfigurationError(f"a bad message is not sent again: {found['bad']}")
    if not found.keys() & {"value", "base64"}:
        raise ConfigurationError(f"it has neither value, a text, nor base64; {_AS_THEY_ARE}")
    if strange := sorted(found.keys() - _FIELDS - _OF_READERS):
        raise ConfigurationError(
            f"it has the unknown field {strange[0]}; there are {', '.join(sorted(_FIELDS))}. Or, {_AS_THEY_ARE}"
        )
    attributes = found.get("attributes", {})
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        raise ConfigurationError("attributes is not an object of texts")
    return OutgoingMessage.of(
        topic,
        _body(found),
        tag=_text(found, "tag") or defaults.tag,
        time=_text(found, "time") or datetime.now(defaults.zone),
        attributes={**defaults.attributes, **attributes},
    )


def _body(found: Mapping[str, Any]) -> bytes:
    if "value" in found and "base64" in found:
        raise ConfigurationError("it has both value and base64; leave out one of them")
    try:
        if "value" in found:
            return _text(found, "value").encode()
        return base64.b64decode(_text(found, "base64"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ConfigurationError(f"its value is not what it should be: {error}") from None


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is not a text")
    return value
