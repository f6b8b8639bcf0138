"""Puts a table's small files together, beside the rounds: each round adds some, and none of them is ever large.

Delta's own upkeep follows Spark's writes alone. So where tasks write, the job asks Spark for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Final

from tubeclient_ingest.tables.spark_errors import failure_of, spark_errors

if TYPE_CHECKING:
    from tubeclient_ingest.tables.spark_table import SparkTable

__all__ = ["Upkeep"]

_log = logging.getLogger(__name__)

_END_SECONDS: Final = 60.0


class Upkeep:
    """The upkeep of a run's tables, one after the other, in a thread of its own."""

    def __init__(self) -> None:
        self._due: queue.SimpleQueue[SparkTable | None] = queue.SimpleQueue()
        self._waiting: set[str] = set()
        self._thread: threading.Thread | None = None

    def due(self, table: SparkTable) -> None:
        """The table's files are to be put together soon."""
        if table.sql in self._waiting:
            return
        self._waiting.add(table.sql)
        self._due.put(table)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ingest upkeep", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Wait for what is due, a minute at most: then it is for the next run to do."""
        if self._thread is not None:
            self._due.put(None)
            self._thread.join(_END_SECONDS)

    def _work(self) -> None:
        while (table := self._due.get()) is not None:
            self._waiting.discard(table.sql)
            try:
                table.optimize()
            except spark_errors() as error:
                # Others may change the table, or the session ends. The next time is some rounds away.
                _log.info("the files of %s could not be put together: %s", table.where, failure_of(error))
