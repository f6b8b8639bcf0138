"""Parses bodies and attributes of all payloads of a pack at once.

Producers usually attach the same keys in the same order to each message of a topic. Then all texts of a pack can be cut
at the same commas and equal signs, a column at a time. `attribute_texts` handles all other packs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.wire.payload import TAG_KEY, TIME_KEY

__all__ = ["AttributeColumns", "split_alike"]

_LENGTH_BYTES: Final = 4


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
