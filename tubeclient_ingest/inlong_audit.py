"""Tells InLong's Audit what each round received and wrote, as Sort does."""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from tubeclient.admin.inlong_audit import AuditFailed, proxy_addresses, send_reports
from tubeclient.printable import counted
from tubeclient.wire.audit import AuditCount, Sender, encode_reports

__all__ = ["SORT_RECEIVED", "SORT_SENT", "AuditReporter", "CountsRow"]

SORT_RECEIVED: Final = 33
SORT_SENT: Final = 34
"""Audit's ids of Sort with TubeMQ (AuditIdEnum.SORT_TUBE_INPUT and SORT_TUBE_OUTPUT; success adds no bits). It has none
for Delta."""

_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 60.0
_MOST_KEPT: Final = 1000
_log = logging.getLogger(__name__)


class CountsRow(NamedTuple):
    """A row of the counts table, in its columns' order. Times have a zone."""

    group: str
    stream: str | None
    minute: datetime | None
    received: int
    written: int
    bad: int
    sequence: int
    run_id: str
    time: datetime


class AuditReporter:
    """Reports to the audit-proxies "HOST:PORT,...", the first of them that takes it. ConfigurationError for an address
    that is none.

    A round's report depends on its rows alone. So the same rows, reported again from the table, count once: in Audit's
    queries by minutes, and in a store with its primary key (StarRocks).
    """

    def __init__(self, proxies: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._proxies = deque(proxy_addresses(proxies, "audit-proxies"))
        self._clock = clock
        self._kept: deque[tuple[int, bytes]] = deque()
        self._lost = 0
        self._pause_until: float | None = None

    def report(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Report rows of the counts table, as in `CountsRow`, and what is kept from before. Takes five seconds at most.
        ValueError for a time without a zone.

        While no proxy takes them reports are kept, the newest thousand, and tried once in a minute; that is a warning.
        Audit has no place for rows without stream or data time, nor for corrections that take something back.
        """
        self._kept.extend(_reports(map(CountsRow._make, rows)))
        while len(self._kept) > _MOST_KEPT:
            self._kept.popleft()
            self._lost += 1
        if self._pause_until is None or self._clock() >= self._pause_until:
            self.flush()

    def flush(self) -> int:
        """Try what is kept, at once; returns how many reports are left. For the end of a run."""
        end = self._clock() + _SECONDS
        failure: AuditFailed | None = None
        for _ in range(len(self._proxies)):
            if not self._kept or (left := end - self._clock()) <= 0:
                break
            try:
                for _ in send_reports(self._proxies[0], list(self._kept), left):
                    self._kept.popleft()
            except AuditFailed as error:
                failure = error
                self._proxies.rotate(-1)
        self._tell(failure)
        return len(self._kept)

    def _tell(self, failure: AuditFailed | None) -> None:
        if not self._kept:
            if self._pause_until is not None:
                _log.warning("the audit-proxies have all reports again%s", self._gone())
            self._pause_until, self._lost = None, 0
            return
        if self._pause_until is None:
            _log.warning(
                "%s; the job goes on, and keeps %s for later%s",
                failure or "the audit-proxies are slow",
                counted(len(self._kept), "report"),
                self._gone(),
            )
        self._pause_until = self._clock() + _PAUSE_SECONDS

    def _gone(self) -> str:
        return f"; {counted(self._lost, 'report')} before them were given up" if self._lost else ""


def _reports(rows: Iterable[CountsRow]) -> list[tuple[int, bytes]]:
    """Request ids and frames for rows."""
    counts: dict[Sender, dict[tuple[int, str, str, int], int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if not row.stream or row.minute is None:
            continue
        if row.minute.tzinfo is None or row.time.tzinfo is None:
            raise ValueError("a time of the counts table has no zone")
        # Of its columns Audit's tables limit the thread.
        sender = Sender(row.run_id[:50], int(row.time.timestamp() * 1000), row.sequence)
        minute_ms = int(row.minute.timestamp()) // 60 * 60_000
        for audit_id, count in ((SORT_RECEIVED, row.received), (SORT_SENT, row.written)):
            counts[sender][minute_ms, row.group, row.stream, audit_id] += count
    return [
        report
        for sender, of_sender in counts.items()
        for report in encode_reports(
            sender,
            [
                AuditCount(*key, count, (sender.time_ms - key[0]) * count)
                for key, count in sorted(of_sender.items())
                if count > 0
            ],
        )
    ]
