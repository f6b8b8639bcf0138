"""A storage in memory with Delta's conflict rules, for thousands of commits."""

from __future__ import annotations

from collections.abc import Sequence

from offsets_store.progress import GroupKey
from offsets_store.rows import Row
from offsets_store.storage import Conflict

__all__ = ["Log", "MemoryStorage"]


class Log:
    """The table that several storages share: its rows, and each commit's group."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.commits: list[tuple[str, int]] = []
        """(consumer group, sequence)."""


class MemoryStorage:
    """One writer's handle on a `Log`; see `Storage`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._seen = 0

    def rows(self, consumer_group: str) -> list[Row]:
        self._seen = len(self._log.commits)
        return [row for row in self._log.rows if row.consumer_group == consumer_group]

    def transaction_version(self, key: GroupKey) -> int | None:
        seen = [sequence for group, sequence in self._log.commits[: self._seen] if group == key.consumer_group]
        return seen[-1] if seen else None

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        if any(group == key.consumer_group for group, _ in self._log.commits[self._seen :]):
            raise Conflict("the group was written since")
        self._log.rows = [row for row in self._log.rows if not row.belongs_to(key)] + list(rows)
        self._log.commits.append((key.consumer_group, sequence))

    def maintain(self, retention_hours: int | None) -> int:
        return 0
