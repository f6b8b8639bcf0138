"""Who waits for the offsets table's commits: nobody (best effort), or the query (strict)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from spark_source.offset_spec import Bounds
from spark_source.offsets import Offsets
from spark_source.table_thread import NoAnswer, TableThread
from tubeclient.keys import PartitionKey, StoreKey

__all__ = ["PATIENCE", "BestEffortCommits", "Commits", "Patience", "Position", "StrictCommits"]

_log = logging.getLogger(__name__)


class Position(NamedTuple):
    """What one commit says: up to where the sink is complete, with what was known then of ends and nodes."""

    complete: Offsets
    bounds: Mapping[StoreKey, Bounds]
    node_of: Mapping[PartitionKey, int]


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

    def __init__(self, thread: TableThread, write: Callable[[Position], None], patience: Patience) -> None:
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
    """Commits in the background: the newest position at each time, older ones that wait are dropped.

    A failure is a warning, one for each trouble, and tried again after `Patience.retry`.
    """

    def __init__(
        self,
        thread: TableThread,
        write: Callable[[Position], None],
        patience: Patience,
        clock: Callable[[], float],
    ) -> None:
        self._thread = thread
        self._write = write
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: Position | None = None
        self._pausing = False
        self._busy_since: float | None = None
        self._silence_told: float | None = None
        """The `_busy_since` of a commit that was told of."""
        self._trouble: str | None = None
        self._superseded: Exception | None = None

    def check(self) -> None:
        if self._superseded is not None:
            raise self._superseded
        since = self._busy_since
        if since is not None and since != self._silence_told and self._clock() - since >= self._patience.silence:
            self._silence_told = since
            _log.warning("the offsets table has not answered for %g s, it stays behind", self._patience.silence)

    def commit(self, position: Position) -> None:
        self._wait(position)
        self._thread.post(self._step)

    def finish(self, last: Position | None, patience_seconds: float) -> str | None:
        if last is not None:
            self._wait(last)
        try:
            self._thread.call(self._retry, patience_seconds)
        except NoAnswer as error:
            return str(error)
        self.check()
        return None if self._waiting is None else self._trouble

    def _wait(self, position: Position) -> None:
        with self._lock:
            self._waiting = position

    def _step(self) -> None:
        """Commit the newest position, on the thread."""
        from offsets_store import SupersededRun

        if self._pausing:
            return
        with self._lock:
            position, self._waiting = self._waiting, None
        if position is None:
            return
        self._busy_since = self._clock()
        try:
            self._write(position)
        except SupersededRun as error:
            self._superseded = error
        except BaseException as error:  # a panic of native code is no Exception
            with self._lock:
                self._waiting = self._waiting or position
            self._pausing = True
            self._thread.repeat(self._retry, self._patience.retry)
            if self._trouble is None:
                self._trouble = str(error) or type(error).__name__
                _log.warning("the offsets table was not written, it stays behind and is tried again: %s", self._trouble)
        else:
            if self._trouble is not None:
                _log.info("the offsets table is written again")
            self._trouble = None
        finally:
            self._busy_since = None

    def _retry(self) -> None:
        self._pausing = False
        self._step()
