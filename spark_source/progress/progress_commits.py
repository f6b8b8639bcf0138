"""Who waits for the offsets table's commits: nobody (best effort), or the query (strict)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from spark_source.offsets.offset_spec import Bounds
from spark_source.offsets.offsets import Offsets
from spark_source.plan.batch_plan import BatchPlan
from spark_source.progress.job_thread import JobThread
from spark_source.progress.newest_writer import NewestWriter
from tubeclient.keys import PartitionKey, StoreKey

__all__ = ["PATIENCE", "BestEffortCommits", "Commits", "Patience", "Position", "StrictCommits"]

_log = logging.getLogger(__name__)


class Position(NamedTuple):
    """What one commit says: up to where the sink is complete, with what was known then of ends and nodes."""

    complete: Offsets
    bounds: Mapping[StoreKey, Bounds]
    node_of: Mapping[PartitionKey, int]
    as_of: datetime
    """When that was known. The end of the next batch is not known before, whoever hears of it: see
    `offsets_store.Companion`."""
    planned: BatchPlan | None = None
    """The batch that ended there; None where it was planned by an earlier run."""
    back_from: Offsets | None = None
    """Where the query stood before, if it went back: behind a lost tail that was accepted."""


class Patience(NamedTuple):
    """How long a query waits for its offsets table, in seconds."""

    call: float = 60.0
    """For an answer that it cannot go on without. delta-rs gives up by itself before that, with a reason."""
    end: float = 5.0
    """For the last commit, when it ends."""
    retry: float = 5.0
    """Between two tries in the background."""
    silence: float = 30.0
    """Until a commit in the background that does not end is told of."""


PATIENCE: Final = Patience()


class Commits(Protocol):
    """Commits positions, each newer than the one before."""

    def check(self) -> None:
        """Raise SupersededRun where a commit has found a newer run of the group."""

    def commit(self, position: Position) -> None:
        """Bring `position` to the table, now or soon."""

    def finish(self, last: Position | None, patience_seconds: float) -> str | None:
        """Commit `last` if there is one, and wait for what is under way; returns why the newest position is not in the
        table, None if it is. Raises SupersededRun."""


class StrictCommits:
    """The query waits for each commit and ends with its error."""

    def __init__(self, thread: JobThread, write: Callable[[Position], None], patience: Patience) -> None:
        self._thread = thread
        self._write = write
        self._patience = patience
        self._broken_off: Position | None = None

    def check(self) -> None:
        """Nothing is found but by `commit`, which raises it."""

    def commit(self, position: Position) -> None:
        """Raises what the commit raises, NoAnswer where it does not end in time."""
        self._broken_off = position
        try:
            self._thread.call(lambda: self._write(position), self._patience.call)
        except Exception:
            self._broken_off = None  # the query ends, and says why
            raise
        self._broken_off = None

    def finish(self, last: Position | None, patience_seconds: float) -> str | None:
        """Repeats a commit in the middle of which the process was told to end."""
        from offsets_store import SupersededRun

        position, self._broken_off = last or self._broken_off, None
        if position is None:
            return None
        try:
            self._thread.call(lambda: self._write(position), patience_seconds)
        except SupersededRun:
            raise
        except Exception as error:
            return str(error)
        return None


class BestEffortCommits:
    """Commits in the background, the newest position at each time: nobody waits, a failure is a warning."""

    def __init__(
        self,
        thread: JobThread,
        write: Callable[[Position], None],
        patience: Patience,
        clock: Callable[[], float],
    ) -> None:
        self._write = write
        self._patience = patience
        self._clock = clock
        self._newest = NewestWriter(
            thread,
            self._write_one,
            trouble="the offsets table was not written, it stays behind and is tried again",
            relief="the offsets table is written again",
            retry_seconds=patience.retry,
        )
        self._busy_since: float | None = None
        self._silence_told: float | None = None
        """The `_busy_since` of a commit that was told of."""
        self._superseded: Exception | None = None

    def check(self) -> None:
        if self._superseded is not None:
            raise self._superseded
        since = self._busy_since
        if since is not None and since != self._silence_told and self._clock() - since >= self._patience.silence:
            self._silence_told = since
            _log.warning("the offsets table has not answered for %g s, it stays behind", self._patience.silence)

    def commit(self, position: Position) -> None:
        self._newest.put(position)

    def finish(self, last: Position | None, patience_seconds: float) -> str | None:
        if last is not None:
            self._newest.put(last)
        reason = self._newest.finish(patience_seconds)
        self.check()
        return reason

    def _write_one(self, position: Position) -> None:
        from offsets_store import SupersededRun

        self._busy_since = self._clock()
        try:
            self._write(position)
        except SupersededRun as error:
            self._superseded = error  # nothing to try again
        finally:
            self._busy_since = None
