"""Parses bodies and attributes of payloads.

Spark needs tag and time of each message. Their text repeats from message to message, so parsed texts are cached.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from tubeclient.errors import CorruptMessage
from tubeclient.wire.message_time import message_time_ms
from tubeclient.wire.payload import ATTRIBUTE_FLAG, TAG_KEY, TIME_KEY, parse_attributes

__all__ = ["NO_ATTRIBUTES", "AttributeTexts", "Attributes"]

_LENGTH_BYTES: Final = 4
_OWN_MARK: Final = b"$msgT"
"""Prefix of TubeMQ's own attributes."""
_TIME_MARK: Final = f"{TIME_KEY}=".encode()
_KNOWN_TEXTS: Final = 4_096


class Attributes(NamedTuple):
    """The attributes of a message."""

    tag: str | None
    time_us: int | None
    """Microseconds since 1970, UTC."""
    others: dict[str, str]


NO_ATTRIBUTES: Final = Attributes(None, None, {})


class AttributeTexts:
    """Parses payloads. It caches texts, so each task needs its own. `with_others` false leaves out all but tag and
    time; `zone` is the time zone of the producers' clocks."""

    def __init__(self, zone: ZoneInfo, *, with_others: bool) -> None:
        self._zone = zone
        self._with_others = with_others
        self._known: dict[bytes, Attributes] = {}
        self._times_us: dict[str, int | None] = {}

    def split(
        self, payloads: Iterable[bytes], flags: Iterable[int], bodies: list[bytes], attributes: list[Attributes]
    ) -> None:
        """Append to bodies and attributes. CorruptMessage for a payload that cannot be parsed."""
        known = self._known
        for payload, flag in zip(payloads, flags, strict=True):
            if flag & ATTRIBUTE_FLAG:
                body_start = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "big")
                found = known.get(payload[_LENGTH_BYTES:body_start])
                if found is None or body_start > len(payload):
                    found = self._find(payload, body_start)
                attributes.append(found)
                bodies.append(payload[body_start:])
            else:
                attributes.append(NO_ATTRIBUTES)
                bodies.append(payload)

    def _find(self, payload: bytes, body_start: int) -> Attributes:
        """Clients write tag and time first. These repeat from message to message, but what follows often does not. So
        the text up to the time is cached, and the rest is parsed only if wanted."""
        if body_start > len(payload):
            raise CorruptMessage(
                f"a message has attributes of {body_start - _LENGTH_BYTES} bytes in a payload of {len(payload)}"
            )
        time_at = payload.find(_TIME_MARK, _LENGTH_BYTES, body_start)
        cut = payload.find(b",", time_at, body_start) if time_at >= 0 else -1
        if cut < 0:
            cut = body_start
        head = payload[_LENGTH_BYTES:cut]
        known = self._known.get(head)
        if known is None:
            if len(self._known) >= _KNOWN_TEXTS:
                self._known.clear()
            known = self._known[head] = self._parse(head)
        if cut == body_start:
            return known
        if payload.find(_OWN_MARK, cut, body_start) < 0:
            if not self._with_others:
                return known
            others = self._parse(payload[cut:body_start]).others
            if known.others.keys().isdisjoint(others):
                return Attributes(known.tag, known.time_us, {**known.others, **others})
        # The rest can change the meaning of the part before it.
        return self._parse(payload[_LENGTH_BYTES:body_start])

    def _parse(self, raw: bytes) -> Attributes:
        try:
            found = parse_attributes(raw.decode())
        except UnicodeDecodeError as error:
            raise CorruptMessage(f"attributes are not UTF-8: {error}") from error
        tag, time = found.pop(TAG_KEY, None), found.pop(TIME_KEY, "")
        return Attributes(tag or None, self.time_us(time) if time else None, found)

    def time_us(self, text: str) -> int | None:
        """Parse yyyyMMddHHmm; None for anything else, as in Apache's client."""
        if text not in self._times_us:
            if len(self._times_us) >= _KNOWN_TEXTS:
                self._times_us.clear()
            time_ms = message_time_ms(text, self._zone)
            self._times_us[text] = None if time_ms is None else time_ms * 1_000
        return self._times_us[text]
