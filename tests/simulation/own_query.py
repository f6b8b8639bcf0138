"""A query of the user's own: a sink that writes each batch number once, as Delta's does."""

from __future__ import annotations

from typing import Any

from tests.simulation.spark import Query, Rows, Session

__all__ = ["run_own_query"]

NAME = "own"


def run_own_query(session: Session, options: dict[str, str], interval_seconds: float | None, stop: Any) -> None:
    """Run it in the driver's process until it ends, fails, or `stop` is set."""
    world = session.world

    def write(rows: Rows, batch_id: int) -> None:
        made = rows.collect()
        world.disk.pause("write")
        world.target.write_once(str(query.id), batch_id, made)
        world.disk.pause("answer")

    query = Query(session, options, write, NAME, interval_seconds)
    session.query = query
    while not query.awaitTermination(0.25):
        if stop.is_set():
            query.stop()
            break
