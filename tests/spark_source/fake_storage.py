"""An offsets table in memory with injectable faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from offsets_store import GroupKey, OffsetsTable
from offsets_store.rows import Row
from offsets_store.schema import POSITION
from tests.spark_source.fakes import ROW

HANG_SECONDS = 30.0
"""After so long a hanging store answers all the same: a test that waited for it fails, and ends."""


class FakeStorage:
    """`before_read` and `before_write` may raise, or take their time; `after_write` may lose the answer."""

    def __init__(self) -> None:
        self.kept: list[Row] = []
        self.sequences: dict[str, int] = {}
        self.commits: list[dict[str, int]] = []
        """Positions in rows, of each commit that has any."""
        self.before_read: Callable[[], None] = lambda: None
        self.before_write: Callable[[], None] = lambda: None
        self.after_write: Callable[[], None] = lambda: None
        self.writes = 0
        """Writes that were tried."""
        self.hanging = False

    @property
    def table(self) -> OffsetsTable:
        return OffsetsTable("memory", storage=self)

    @property
    def positions(self) -> dict[str, int]:
        """Of group g in topic t, in rows."""
        return positions(self.kept)

    @contextmanager
    def hangs(self) -> Iterator[threading.Event]:
        """A fault for `before_...`: does not return before the end, or before the event is set."""
        released = threading.Event()
        self.hang_until = released
        try:
            yield released
        finally:
            released.set()

    def hang(self) -> None:
        self.hanging = True
        self.hang_until.wait(HANG_SECONDS)
        self.hanging = False

    def rows(self, consumer_group: str) -> list[Row]:
        self.before_read()
        return [row for row in self.kept if row.consumer_group == consumer_group]

    def transaction_version(self, key: GroupKey) -> int | None:
        return self.sequences.get(key.transaction_id)

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        self.writes += 1
        self.before_write()
        self.kept = [*(row for row in self.kept if not row.belongs_to(key)), *rows]
        self.sequences[key.transaction_id] = sequence
        if found := positions(rows):
            self.commits.append(found)
        self.after_write()


def positions(rows: Sequence[Row]) -> dict[str, int]:
    return {str(row.partition): row.next_offset // ROW for row in rows if row.kind == POSITION}
