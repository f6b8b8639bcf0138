"""Picking pieces out of a file in memory: with pyarrow, where it is installed, without a step in Python for each."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import pyarrow as pa
except ImportError:  # optional: small pieces take four times as long without it
    pa = None

__all__ = ["gather"]


def gather(data: mmap.mmap | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> memoryview:
    """The bytes data[starts[0]:ends[0]], data[starts[1]:ends[1]] ... one after the other, as a copy.

    ValueError where a piece does not begin behind the one before it, or reaches beyond the data.
    """
    count = len(starts)
    if not count:
        return memoryview(b"")
    borders = np.empty(2 * count, np.int64)
    borders[::2], borders[1::2] = starts, ends
    # Arrow believes what it is told, so it is looked at before.
    if borders[0] < 0 or borders[-1] > len(data) or not (borders[1:] >= borders[:-1]).all():
        raise ValueError(f"{count} pieces from {borders[0]} to {borders[-1]} that are not in order within {len(data)}")
    if pa is None:
        return memoryview(b"".join(map(data.__getitem__, map(slice, starts.tolist(), ends.tolist()))))
    return _with_arrow(data, borders)


def _with_arrow(data: mmap.mmap | bytes, borders: NDArray[np.int64]) -> memoryview:
    # To Arrow, the borders cut the data into strings: a piece, what lies between two pieces, a piece, and so on.
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(data)]
    strings = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(borders) - 1, buffers)
    wanted = np.arange(0, len(borders), 2)
    # By its buffer: pa.array of an array of numpy's imports pandas.
    pieces: Any = strings.take(pa.Int64Array.from_buffers(pa.int64(), len(wanted), [None, pa.py_buffer(wanted)]))
    return memoryview(pieces.buffers()[2]).toreadonly()
