"""An offsets table in memory that fails, hangs or is slow on demand, and a planner that writes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsets_store import OffsetsTableError
from offsets_store.storage import Conflict
from spark_source.progress.follower import Waits
from spark_source.stream.planner import StreamPlanner
from tests.spark_source.fake_storage import FakeStorage
from tests.spark_source.fakes import FakeClock, FakeCluster, as_json, planner_with

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


def open_planner(
    storage: FakeStorage, mode: str, waits: Waits = LONG, clock: FakeClock | None = None, **more: object
) -> StreamPlanner:
    more = {"offsetsTable": "/memory", "offsetsTableMode": mode, **more}
    return planner_with(storage.table, waits, FakeCluster(rows=(0, 100)), clock, **more)


def let_it_work(one: StreamPlanner) -> None:
    """Until the table's thread has done what it was given so far."""
    one._progress._thread.call(lambda: None, 30)


FAULTS: dict[str, Callable[[FakeStorage], Callable[[], None]]] = {
    "fails": lambda _: broken,
    "conflicts": lambda _: lost_race,
    "hangs": lambda storage: storage.hang,
}
