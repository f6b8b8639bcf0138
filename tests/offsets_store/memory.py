"""A storage in memory with Delta's conflict rules: for thousands of commits, and for the simulation.

Versions are put if absent, as files of a Delta log are. `pause` is called before each step that a real store takes
time for; it may wait, or raise as a store does that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from offsets_store.progress import GroupKey
from offsets_store.rows import Row
from offsets_store.run import Conflict

__all__ = ["Commit", "Log", "MemoryStorage"]


class Commit(NamedTuple):
    """One version of the table."""

    group: str
    sequence: int
    rows: tuple[Row, ...]
    """All rows of the table after it."""


class Log:
    """The table that several storages share."""

    def __init__(self) -> None:
        self.versions: list[Commit] = []
        self.on_commit: Callable[[Commit], None] = lambda _: None

    @property
    def rows(self) -> tuple[Row, ...]:
        """The newest version's."""
        return self.versions[-1].rows if self.versions else ()

    @property
    def commits(self) -> list[tuple[str, int]]:
        """Each commit's consumer group and sequence."""
        return [(commit.group, commit.sequence) for commit in self.versions]

    def put(self, version: int, commit: Commit) -> bool:
        """Add this version, unless it is there."""
        if version < len(self.versions):
            return False
        self.versions.append(commit)
        self.on_commit(commit)
        return True


class MemoryStorage:
    """One writer's handle on a `Log`; see `Storage`."""

    def __init__(self, log: Log, pause: Callable[[str], None] = lambda _: None) -> None:
        self._log = log
        self._pause = pause
        self._seen = 0
        """How many versions there were at the last read or write."""

    def rows(self, consumer_group: str) -> list[Row]:
        self._pause("read")
        self._seen, self._group = len(self._log.versions), consumer_group
        return [row for row in self._log.rows if row.consumer_group == consumer_group]

    def transaction_version(self) -> int | None:
        seen = [one.sequence for one in self._log.versions[: self._seen] if one.group == self._group]
        return seen[-1] if seen else None

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        group = key.consumer_group
        base = self._log.versions[self._seen - 1].rows if self._seen else ()
        kept = [row for row in base if row.consumer_group == group and not row.belongs_to(key)]
        self._pause("write")
        while True:
            version = len(self._log.versions)
            if any(one.group == group for one in self._log.versions[self._seen : version]):
                raise Conflict("the group was written since")
            others = [row for row in self._log.rows if row.consumer_group != group]
            made = Commit(group, sequence, (*others, *kept, *rows))
            self._pause("commit")
            if self._log.put(version, made):
                break
        self._pause("answer")
        self._seen = version + 1
