"""Checks the order of offsets table and sink, continuously and after each end of the job."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.exactly_once.job import Job
from tests.exactly_once.looking import end_of_sink, kept
from tests.exactly_once.order import Seen, wrong_order

__all__ = ["OrderWatch"]

_SHOWN: Final = 5
_PAUSE_SECONDS = 0.25
_END_SECONDS = 30.0


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
