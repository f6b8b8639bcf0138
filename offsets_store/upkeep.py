"""Maintains a table in a background thread. One run at a time; no writer waits for it."""

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
"""Maintenance is due at each multiple of this version number; the writer that passes it runs it."""

# A thread that returns from native code after the interpreter is gone crashes the process.
_EXIT_SECONDS: Final = 10.0


class Upkeep:
    """Runs `maintain` of one table when its version says so. `where` names the table in messages."""

    def __init__(self, maintain: Callable[[], object], where: str) -> None:
        self._maintain = maintain
        self._where = where
        self._thread: threading.Thread | None = None

    def committed(self, before: int, after: int) -> None:
        """Report a commit from version `before` to `after`. Starts maintenance if it is due and none is running."""
        if before // EVERY_COMMITS == after // EVERY_COMMITS or (self._thread is not None and self._thread.is_alive()):
            return
        if self._thread is None:
            atexit.register(self.wait, _EXIT_SECONDS)
        self._thread = threading.Thread(target=self._run, name="offsets-table-upkeep", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for running maintenance; returns whether it has ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._maintain()
        except OffsetsTableError as error:
            _log.warning(
                "could not clean up the offsets table; commits continue, and the next try is after %d commits: %s",
                EVERY_COMMITS,
                error,
            )
        except Exception:
            _log.exception("the offsets table at %s was not cleaned up", self._where)
