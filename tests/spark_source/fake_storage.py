"""An offsets table in memory that fails, hangs or is slow on demand, and a planner that writes to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError
from offsets_store.rows import Row
from offsets_store.run import Conflict
from offsets_store.schema import POSITION
from spark_source.progress.latest_writer import Waits
from tests.spark_source.as_spark import JsonPlanner
from tests.spark_source.fakes import ROW, FakeCluster, as_json, planner_with

HANG_SECONDS = 30.0
"""After so long a hanging store answers all the same: a test that waited for it fails, and ends."""


class FakeStorage:
    """`before_read` and `before_write` may raise, or take their time; `after_write` may lose the answer."""

    def __init__(self) -> None:
        self.kept: list[Row] = []
        self.sequence: int | None = None
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

    def transaction_version(self) -> int | None:
        return self.sequence

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        self.writes += 1
        self.before_write()
        self.kept = [*(row for row in self.kept if not row.belongs_to(key)), *rows]
        self.sequence = sequence
        if found := positions(rows):
            self.commits.append(found)
        self.after_write()


def positions(rows: Sequence[Row]) -> dict[str, int]:
    return {str(row.partition): row.next_offset // ROW for row in rows if row.kind == POSITION}


SHORT = Waits(call=0.05, end=0.05, retry=3600.0)
LONG = Waits(call=30.0, end=30.0, retry=3600.0)


def broken() -> None:
    raise OffsetsTableError("disk full")


def lost_race() -> None:
    raise Conflict("somebody else wrote")


def both(rows: int) -> dict[str, int]:
    return {"1:t:0": rows, "1:t:1": rows}


def at(rows: int) -> dict[str, Any]:
    return as_json(both(rows))


def open_planner(storage: FakeStorage, waits: Waits = LONG, cluster: FakeCluster | None = None) -> JsonPlanner:
    return planner_with(storage.table, waits, cluster or FakeCluster(rows=(0, 100)), offsetsTable="/memory")


FAULTS: dict[str, Callable[[FakeStorage], Callable[[], None]]] = {
    "fails": lambda _: broken,
    "conflicts": lambda _: lost_race,
    "hangs": lambda storage: storage.hang,
}
