"""A table's maintenance beside its writer: in a thread of its own, one at a time, and nobody waits for it."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from typing import Final

from offsets_store.errors import OffsetsTableError

__all__ = ["EVERY_COMMITS", "Upkeep"]

_log = logging.getLogger(__name__)

EVERY_COMMITS: Final = 50
"""Maintenance is due at each version that is a multiple of this: one of a table's writers sees it pass."""

# A thread that comes back from native code into an interpreter that is gone takes the process down with it.
_EXIT_SECONDS: Final = 10.0


class Upkeep:
    """Runs `maintain` of one table when its versions say so. `where` names the table in messages."""

    def __init__(self, maintain: Callable[[], object], where: str) -> None:
        self._maintain = maintain
        self._where = where
        self._thread: threading.Thread | None = None

    def committed(self, before: int, after: int) -> None:
        """A commit led from version `before` to `after`; starts the maintenance if it is due and none is running."""
        if before // EVERY_COMMITS == after // EVERY_COMMITS or (self._thread is not None and self._thread.is_alive()):
            return
        if self._thread is None:
            atexit.register(self.wait, _EXIT_SECONDS)
        self._thread = threading.Thread(target=self._run, name="offsets-table-upkeep", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for a maintenance that is running; whether none is any more."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._maintain()
        except OffsetsTableError as error:
            _log.warning(
                "the offsets table was not cleaned up; it is written as before, and this is tried again after %d "
                "commits: %s",
                EVERY_COMMITS,
                error,
            )
        except Exception:
            _log.exception("the offsets table at %s was not cleaned up", self._where)
