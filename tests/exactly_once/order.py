"""The order in which sink and offsets table get a batch or a round, and who checks it all the while.

A batch is in the sink, then in the offsets table, then the next one is planned. So a reader that first reads where the
batch ended before the newest known one, the table second and the sink last sees three rising positions, at any moment.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.exactly_once.looking import Positions, end_of_sink, kept

if TYPE_CHECKING:
    from tests.exactly_once.job import Job

__all__ = ["OrderWatch", "Positions", "Seen", "wrong_order"]

_SHOWN: Final = 5
_PAUSE_SECONDS = 0.25
_END_SECONDS = 30.0


@dataclass(frozen=True)
class Seen:
    """What was read, in this order; {} for what does not exist yet."""

    due: Positions
    """Where the last batch but one ended, of those that are known: planned by Spark, or in the sink."""
    table: Positions
    """The offsets table's positions."""
    sink: Positions
    """Where the rows in the sink end."""
    began: Positions = field(default_factory=dict)
    """Where the query began, as the offsets table keeps it until a batch with rows is complete."""


def wrong_order(seen: Seen, *, at_rest: bool = False) -> list[str]:
    """Say what is wrong: a table that leads the sink or trails by more than a batch; `at_rest`, after an end that the
    job came to by itself, one that trails at all. [] if nothing is.
    """
    wrong = [
        f"{key}: the table leads, at {at}, and the sink ends at {seen.sink.get(key)}"
        for key, at in sorted(seen.table.items())
        if at > seen.sink.get(key, -1)
    ]
    # A first batch without rows is nothing that the table has to hear of.
    due = {} if seen.due == seen.began else seen.due
    wrong += [
        f"{key}: the table trails by more than a batch, at {seen.table.get(key)}; the last batch but one ended at {at}"
        for key, at in sorted(due.items())
        if seen.table.get(key, -1) < at
    ]
    if at_rest:
        wrong += [
            f"{key}: the table trails at the end, at {seen.table.get(key)}, and the sink ends at {at}"
            for key, at in sorted(seen.sink.items())
            if seen.table.get(key, -1) < at
        ]
    return wrong


class OrderWatch:
    """What was found wrong with the order of one job, and how often it was looked at."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lock = threading.Lock()
        self.looks = 0
        self.wrong: list[str] = []
        self.killed: Counter[str] = Counter()
        """After a kill: how often the table trailed the sink, and how often it did not."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look again and again for the length of the block."""
        stop = threading.Event()

        def watch() -> None:
            try:
                while not stop.wait(_PAUSE_SECONDS):
                    self._look(at_rest=False)
            except Exception as error:
                with self._lock:
                    self.wrong.append(f"the watch ended: {error!r}")

        thread = threading.Thread(target=watch, name="order-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_END_SECONDS)

    def after_kill(self) -> None:
        """Look once, at a job that was killed."""
        seen = self._look(at_rest=False)
        behind = any(seen.table.get(key, -1) < at for key, at in seen.sink.items())
        self.killed["trailed by a round" if behind else "did not trail"] += 1

    def after_stop(self) -> None:
        """Look once, at a job that came to its end by itself."""
        self._look(at_rest=True)

    def lines(self) -> list[str]:
        """The figures, for people."""
        some = "; ".join(self.wrong[:_SHOWN])
        return [
            f"looks at sink and offsets table         {self.looks:,}",
            *(f"  after a kill, the table {how:<20}{count:,}" for how, count in sorted(self.killed.items())),
            f"  out of order{'':<26}{len(self.wrong):,}{f': {some}' if some else ''}",
        ]

    def _look(self, at_rest: bool) -> Seen:
        # In this order: what is read later may only have grown.
        due = self._job.end_before_last
        table, _ = kept(self._job.offsets_table)
        seen = Seen(due, table, end_of_sink(self._job.table))
        found = wrong_order(seen, at_rest=at_rest)
        with self._lock:
            self.looks += 1
            self.wrong += found
        return seen
