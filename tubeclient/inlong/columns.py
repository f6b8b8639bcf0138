"""Records in Arrow columns, built from runs of records that share their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, repeat
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.inlong.attributes import Origin
from tubeclient.inlong.blocks import LENGTH
from tubeclient.inlong.packs import Run

_NO_STOP: Final = (1 << 31) - 1
"""More than any body has. pyarrow 26 computes a wrong size if binary_slice gets no stop."""

_NOTHING: Final = pa.array([], pa.binary())
_RECORD_BYTES: Final = 64
"""What a record takes besides its body and what it has from its message or run, about."""
_PAIR_BYTES: Final = 8
"""What a pair of texts takes in a column besides the texts."""
_DICT_BYTES: Final = 100
"""What a pair takes in a dictionary, about."""


class Record(NamedTuple):
    """One record of a message."""

    body: bytes
    origin: Origin
    record_index: int
    """Its index in the message, from 0."""
    attributes: dict[str, str]


class BadMessage(NamedTuple):
    """A message that cannot be parsed."""

    number: int
    """Its index among the messages that were decoded together, from 0."""
    reason: str


class Segment(NamedTuple):
    """Consecutive records with the same attributes."""

    origin: Origin
    attributes: dict[str, str]
    records: int
    """Number of records."""

    def repeated_bytes(self, of_message: int) -> int:
        """About how many bytes its records take in columns besides their bodies; `of_message` are those of each record
        for what it has from its message."""
        ids = len(self.origin.group_id or "") + len(self.origin.stream_id or "")
        texts = sum(map(len, self.attributes)) + sum(map(len, self.attributes.values()))
        pairs = len(self.attributes)
        return self.records * (of_message + ids + texts + pairs * _PAIR_BYTES) + pairs * _DICT_BYTES


class RecordColumns(NamedTuple):
    """Records as columns of equal length."""

    message_numbers: pa.Int32Array
    """The index of each record's message, from 0."""
    record_indexes: pa.Int32Array
    """Its index in the message, from 0."""
    group_ids: pa.StringArray
    stream_ids: pa.StringArray
    data_times_ms: pa.Int64Array
    bodies: pa.BinaryArray
    segments: list[Segment]
    """The attributes, and how many consecutive records have them."""
    bad: list[BadMessage]

    def attribute_maps(self) -> pa.MapArray:
        """The attributes as a column of maps from text to text."""
        maps = [segment.attributes for segment in self.segments]
        ends = pa.array(list(accumulate(map(len, maps), initial=0)), pa.int32())
        keys = pa.array(list(chain.from_iterable(maps)), pa.string())
        values = pa.array([value for one in maps for value in one.values()], pa.string())
        return pa.MapArray.from_arrays(ends, keys, values).take(_repeated([one.records for one in self.segments]))

    def records(self) -> list[Record]:
        """One object for each record."""
        segments = chain.from_iterable(repeat(segment, segment.records) for segment in self.segments)
        rows = zip(self.bodies.to_pylist(), segments, self.record_indexes.to_pylist(), strict=True)
        return [Record(body, segment.origin, index, dict(segment.attributes)) for body, segment, index in rows]


class ColumnBuilder:
    """Collects the records of messages, one message after the other."""

    def __init__(self) -> None:
        self.size = 0
        """About how many bytes the columns have."""
        self._messages: list[int] = []
        self._records: list[int] = []
        """Records of each message."""
        self._segments: list[Segment] = []
        self._chunks: list[pa.BinaryArray] = []
        self._runs: list[Run] = []
        """Their bodies follow the chunks."""
        self._bad: list[BadMessage] = []

    @property
    def used(self) -> bool:
        """Whether anything was added."""
        return bool(self._messages or self._bad)

    def add_bad(self, number: int, reason: str) -> None:
        """Add a message that cannot be parsed."""
        self._bad.append(BadMessage(number, reason))

    def add_repeated(self, size: int) -> None:
        """Count bytes of columns that are not in the bodies."""
        self.size += size

    def add_plain(self, number: int, segments: list[Segment], bodies: list[bytes]) -> None:
        """Add the records of a message as separate bodies."""
        self._add(number, segments, len(bodies))
        self._add_bodies(bodies)
        self.size += sum(map(len, bodies)) + len(bodies) * _RECORD_BYTES

    def add_runs(self, number: int, segments: list[Segment], runs: Sequence[Run]) -> None:
        """Add the records of a message that are still in their blocks."""
        self._add(number, segments, sum(map(len, runs)))
        for run in runs:
            self.size += run.starts[-1] - run.starts[0] + len(run) * _RECORD_BYTES
            if run.has_own:
                self._add_bodies(run.bodies())
            else:
                self._runs.append(run)

    def columns(self) -> RecordColumns:
        """All records that were added."""
        counts = np.array(self._records, np.int32)
        firsts = np.repeat(counts.cumsum(dtype=np.int32) - counts, counts)
        of_segment = _repeated([segment.records for segment in self._segments])
        origins = [segment.origin for segment in self._segments]
        return RecordColumns(
            pa.array(np.repeat(np.array(self._messages, np.int32), counts)),
            pa.array(np.arange(len(firsts), dtype=np.int32) - firsts),
            pa.array([origin.group_id for origin in origins], pa.string()).take(of_segment),
            pa.array([origin.stream_id for origin in origins], pa.string()).take(of_segment),
            pa.array([origin.data_time_ms for origin in origins], pa.int64()).take(of_segment),
            self._bodies(),
            self._segments,
            self._bad,
        )

    def _add_bodies(self, bodies: list[bytes]) -> None:
        self._end_runs()
        self._chunks.append(pa.array(bodies, pa.binary()))

    def _end_runs(self) -> None:
        if self._runs:
            self._chunks.append(_bodies_of(self._runs))
            self._runs = []

    def _bodies(self) -> pa.BinaryArray:
        self._end_runs()
        # One chunk is not copied.
        return self._chunks[0] if len(self._chunks) == 1 else pa.concat_arrays([_NOTHING, *self._chunks])

    def _add(self, number: int, segments: Iterable[Segment], count: int) -> None:
        self._messages.append(number)
        self._records.append(count)
        self._segments += segments


def _bodies_of(runs: Sequence[Run]) -> pa.BinaryArray:
    """The bodies of runs that fill their blocks: Arrow reads each entry with its length, and cuts that off."""
    ends = list(accumulate((len(run.block) for run in runs), initial=0))
    starts = [np.array(run.starts[:-1], np.int32) + np.int32(at) for run, at in zip(runs, ends, strict=False)]
    offsets = np.concatenate([*starts, np.array(ends[-1:], np.int32)])
    block = b"".join(run.block for run in runs)
    entries = pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    )
    return pc.binary_slice(entries, LENGTH.size, _NO_STOP)


def _repeated(counts: list[int]) -> pa.Int32Array:
    """Repeats each index from 0 on as often as its count."""
    return pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
