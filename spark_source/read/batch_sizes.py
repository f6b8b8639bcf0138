"""Arrow batches of a good size for the socket between Python and Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from tubeclient.flows.read_range import Pack

__all__ = ["MAX_BATCH_BYTES", "MAX_BATCH_ROWS", "MIN_BATCH_BYTES", "MIN_BATCH_ROWS", "gathered", "regroup"]

MIN_BATCH_ROWS: Final = 10_000
MIN_BATCH_BYTES: Final = 2 << 20
MAX_BATCH_ROWS: Final = 64_000
MAX_BATCH_BYTES: Final = 8 << 20
"""Both sides of the socket hold a whole batch. A single larger message is a batch of its own."""


def gathered(packs: Iterable[tuple[int, Pack | None]]) -> Iterator[tuple[int, list[Pack]]]:
    """Yield packs of each range, in groups large enough for a batch. Packs come with their range's number; a None ends
    a range, and its last group may be small."""
    held: dict[int, _Gathering] = {}
    for number, pack in packs:
        gathering = held.setdefault(number, _Gathering())
        if pack is not None:
            gathering.add(pack)
            if not gathering.enough:
                continue
        del held[number]
        if gathering.packs:
            yield number, gathering.packs


class _Gathering:
    def __init__(self) -> None:
        self.packs: list[Pack] = []
        self._rows = 0
        self._bytes = 0

    def add(self, pack: Pack) -> None:
        self.packs.append(pack)
        self._rows += len(pack)
        self._bytes += pack.payload_bytes

    @property
    def enough(self) -> bool:
        return self._rows >= MIN_BATCH_ROWS or self._bytes >= MIN_BATCH_BYTES


def regroup(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches: each has at least MIN_BATCH_ROWS rows or MIN_BATCH_BYTES, or the next would
    not fit into it.

    No batch has more than MAX_BATCH_ROWS rows or, unless it is a single row, more than MAX_BATCH_BYTES.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for whole in batches:
        for batch in _cut(whole):
            more = batch.nbytes
            if held and (rows + batch.num_rows > MAX_BATCH_ROWS or size + more > MAX_BATCH_BYTES):
                yield _joined(held)
                held, rows, size = [], 0, 0
            held.append(batch)
            rows, size = rows + batch.num_rows, size + more
            if rows >= MIN_BATCH_ROWS or size >= MIN_BATCH_BYTES:
                yield _joined(held)
                held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined[0] if joined else batches[0]  # without rows there is none


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield `batch`, halved until no part is too large; nothing for an empty one."""
    if batch.num_rows == 0:
        return
    if batch.num_rows == 1 or (batch.num_rows <= MAX_BATCH_ROWS and batch.nbytes <= MAX_BATCH_BYTES):
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))
