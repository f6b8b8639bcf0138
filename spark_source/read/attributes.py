"""Parses bodies and attributes of payloads: one at a time whatever they hold, or all of a pack at once.

Spark needs tag and time of each message. Their text repeats from message to message, so parsed texts are cached.
Producers usually attach the same keys in the same order to each message of a topic: then all texts of a pack can be cut
at the same commas and equal signs, a column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.errors import CorruptMessage
from tubeclient.wire.message_time import message_time_ms
from tubeclient.wire.payload import ATTRIBUTE_FLAG, TAG_KEY, TIME_KEY, parse_attributes

__all__ = ["NO_ATTRIBUTES", "AttributeColumns", "AttributeTexts", "Attributes", "split_alike"]

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
    """Parses payloads. It caches texts, so each task needs its own.

    `with_others` false leaves out all but tag and time. `zone` is the time zone of the producers' clocks.
    """

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
        """Return the attributes of one payload.

        Clients write tag and time first. These repeat from message to message, but what follows often does not. So the
        text up to the time is cached, and the rest is parsed only if wanted.
        """
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


class AttributeColumns(NamedTuple):
    """The content of payloads, one row each."""

    bodies: pa.BinaryArray
    tags: pa.StringArray
    times_us: pa.Int64Array
    """Microseconds since 1970, UTC."""
    keys: list[str]
    """Keys of the other attributes, the same for all rows."""
    values: pa.StringArray
    """Row by row, one value per key."""


def split_alike(payloads: Sequence[bytes], time_us: Callable[[str], int | None]) -> AttributeColumns | None:
    """Parse payloads that all have attributes with the same keys in the same order; None for others, and for payloads
    that cannot be parsed.

    `time_us` parses the text of a time; it is called once per text.
    """
    whole = pa.array(payloads, pa.binary())
    parts = _texts_and_bodies(whole)
    if parts is None:
        return None
    texts, bodies = parts
    try:
        pieces = pc.split_pattern(texts.cast(pa.string()), ",")
    except pa.ArrowInvalid:  # not UTF-8
        return None
    rows, width = len(texts), len(pieces[0])
    pairs = pc.split_pattern(pieces.flatten(), "=", max_splits=1)
    if not _all_have(pieces, width) or not _all_have(pairs, 2):
        return None
    # One row has 2 * width texts: key, value, key, value ...
    both = pairs.flatten()
    encoded = both.take(pa.array(np.arange(0, 2 * width * rows, 2))).dictionary_encode()
    keys = encoded.indices.to_numpy().reshape(rows, width)
    if not (keys == keys[0]).all() or len(encoded.dictionary) != width:
        return None
    names = encoded.dictionary.to_pylist()

    def column(name: str) -> pa.StringArray:
        return both.take(pa.array(np.arange(rows) * (2 * width) + 2 * names.index(name) + 1))

    tags = pa.nulls(rows, pa.string())
    if TAG_KEY in names:
        found = column(TAG_KEY)
        tags = pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)
    times = _times(column(TIME_KEY), time_us) if TIME_KEY in names else pa.nulls(rows, pa.int64())
    others = np.array([2 * at + 1 for at, name in enumerate(names) if name not in (TAG_KEY, TIME_KEY)], np.int64)
    values = both.take(pa.array((np.arange(rows)[:, None] * (2 * width) + others).ravel()))
    return AttributeColumns(bodies, tags, times, [names[at // 2] for at in others], values)


def _texts_and_bodies(whole: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.BinaryArray] | None:
    """Cut each payload after its length and its text; None if one is too short."""
    rows = len(whole)
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, np.int32, rows + 1)
    starts = ends[:-1]
    if (ends[1:] - starts < _LENGTH_BYTES).any():
        return None
    content = np.frombuffer(data, np.uint8)
    lengths = sum(content[starts + at].astype(np.int64) << 8 * (_LENGTH_BYTES - 1 - at) for at in range(_LENGTH_BYTES))
    bodies = starts + _LENGTH_BYTES + lengths
    if (bodies > ends[1:]).any():
        return None
    # The same bytes with three entries for each payload: length, text, body.
    cuts = np.empty(3 * rows + 1, np.int32)
    cuts[:-1:3], cuts[1::3], cuts[2::3], cuts[-1] = starts, starts + _LENGTH_BYTES, bodies, ends[-1]
    entries = pa.Array.from_buffers(pa.binary(), 3 * rows, [None, pa.py_buffer(cuts), data])
    texts, values = (entries.take(pa.array(np.arange(at, 3 * rows, 3))) for at in (1, 2))
    return texts, values


def _all_have(lists: pa.ListArray, length: int) -> bool:
    return bool((np.diff(lists.offsets.to_numpy()) == length).all())


def _times(texts: pa.StringArray, time_us: Callable[[str], int | None]) -> pa.Int64Array:
    encoded = texts.dictionary_encode()
    known = [time_us(text) if text else None for text in encoded.dictionary.to_pylist()]
    return pa.array(known, pa.int64()).take(encoded.indices)
