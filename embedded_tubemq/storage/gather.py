"""Copies pieces out of a file in memory; with pyarrow, if installed, without a Python step per piece."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import pyarrow as pa
except ImportError:  # optional: without it small pieces take four times as long
    pa = None

__all__ = ["gather"]


def gather(data: mmap.mmap | bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> memoryview:
    """The bytes data[starts[0]:ends[0]], data[starts[1]:ends[1]] ... joined, as a copy.

    ValueError if a piece begins before the end of the piece before it, or reaches beyond the data.
    """
    count = len(starts)
    if not count:
        return memoryview(b"")
    borders = np.empty(2 * count, np.int64)
    borders[::2], borders[1::2] = starts, ends
    # Arrow does not check its input, so check it here.
    if borders[0] < 0 or borders[-1] > len(data) or not (borders[1:] >= borders[:-1]).all():
        raise ValueError(f"{count} pieces from {borders[0]} to {borders[-1]} that are not in order within {len(data)}")
    if pa is None:
        return memoryview(b"".join(map(data.__getitem__, map(slice, starts.tolist(), ends.tolist()))))
    return _with_arrow(data, borders)


def _with_arrow(data: mmap.mmap | bytes, borders: NDArray[np.int64]) -> memoryview:
    # For Arrow the borders cut the data into strings: a piece, a gap between two pieces, a piece, and so on.
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(data)]
    strings = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(borders) - 1, buffers)
    wanted = np.arange(0, len(borders), 2)
    # From a buffer: pa.array of a numpy array imports pandas.
    pieces: Any = strings.take(pa.Int64Array.from_buffers(pa.int64(), len(wanted), [None, pa.py_buffer(wanted)]))
    return memoryview(pieces.buffers()[2]).toreadonly()
