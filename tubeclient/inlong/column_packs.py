"""Makes packs from columns of records, without a Python object for each record.

A pack whose records share all attributes is an InLongMsg of version 1, any other one of version 3: DataProxy writes
these two for records without and with attributes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.inlong.attributes import attribute_text, write_java_text
from tubeclient.inlong.blocks import LENGTH, most_packed_by_snappy
from tubeclient.inlong.encode import Block, pack_blocks

_BINARY: Final = pa.large_binary()
_NOTHING: Final = pa.scalar(b"", _BINARY)
_MOST_TEXT_BYTES: Final = 0xFFFF
_FIXED_BYTES: Final = 64
"""More than a pack has besides its records and attributes."""


@dataclass(frozen=True, slots=True)
class PackBounds:
    """The largest pack. A record of more bytes is alone in its pack."""

    max_records: int
    max_bytes: int
    """Records and their own attributes before compression, each with a length of 4 bytes."""

    def within(self, message_bytes: int) -> PackBounds:
        """These bounds, lowered so that packs of several records, without their common attributes, fit `message_bytes`
        however badly they compress."""
        room = message_bytes - _FIXED_BYTES - most_packed_by_snappy(0)
        return PackBounds(self.max_records, max(1, min(self.max_bytes, room * 6 // 7)))


class ColumnPack(NamedTuple):
    """An InLongMsg of consecutive records."""

    body: bytes
    first: int
    """The index of its first record."""
    records: int


def encode_columns(
    bodies: pa.Array, own: pa.Array, common: Mapping[str, str], bounds: PackBounds, *, made_ms: int
) -> Iterator[ColumnPack]:
    """Yield packs of all records, in order, compressed with snappy.

    `bodies` are the records, as binary and none of them empty. `own` are the texts of their own attributes, such as
    `dt=1700000000000`: as many, none empty, and no key in `common`, the attributes of all.
    """
    bodies, texts = bodies.cast(_BINARY), own.cast(pa.large_string()).cast(_BINARY)
    codes = texts.dictionary_encode().indices.to_numpy()
    body_sizes, text_sizes = _lengths(bodies), _lengths(texts)
    for first, stop in _cut(body_sizes + text_sizes + 2 * LENGTH.size, bounds):
        records = stop - first
        parts = [_written(body_sizes[first:stop]), bodies.slice(first, records)]
        attributes = write_java_text(attribute_text(common))
        shared = write_java_text("&" + texts[first].as_py().decode())
        if (codes[first:stop] == codes[first]).all() and len(attributes) + len(shared) <= _MOST_TEXT_BYTES:
            body = pack_blocks([Block(attributes + shared, records, _joined(parts))], 1, made_ms=made_ms, snappy=True)
        else:
            parts += [_written(text_sizes[first:stop]), texts.slice(first, records)]
            pairs = _joined(parts)
            block = Block(attributes, records, LENGTH.pack(len(pairs)) + pairs)
            body = pack_blocks([block], 3, made_ms=made_ms, snappy=True)
        yield ColumnPack(body, first, records)


def _cut(sizes: np.ndarray, bounds: PackBounds) -> Iterator[tuple[int, int]]:
    """Yield where packs begin and end; `sizes` are the bytes of each record."""
    ends = np.cumsum(sizes)
    first = before = 0
    while first < len(sizes):
        fitting = int(np.searchsorted(ends, before + bounds.max_bytes, "right"))
        stop = max(first + 1, min(fitting, first + bounds.max_records))
        yield first, stop
        first, before = stop, int(ends[stop - 1])


def _lengths(column: pa.Array) -> np.ndarray:
    lengths: np.ndarray = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _written(lengths: np.ndarray) -> pa.Array:
    """Each length as a LENGTH."""
    data = pa.py_buffer(lengths.astype(">u4").tobytes())
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(LENGTH.size), len(lengths), [None, data])
    return fixed.cast(_BINARY)


def _joined(parts: list[pa.Array]) -> bytes:
    """The parts of the first row, of the second row, and so on."""
    rows = pc.binary_join_element_wise(*parts, _NOTHING)
    size = int(pc.sum(pc.binary_length(rows)).as_py())
    data: bytes = rows.buffers()[2].slice(0, size).to_pybytes()
    return data
