"""What the offsets table needs of whatever writes Delta: one small interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from offsets_store.progress import GroupKey
from offsets_store.rows import Row

__all__ = ["Conflict", "Storage"]


class Conflict(Exception):
    """The commit lost against another writer's; nothing was written. The text is fit for a message."""


class Storage(Protocol):
    """One Delta table, which need not exist before the first write. For one thread at a time.

    Every method raises `OffsetsTableError` where the table cannot be used, with a text that holds no secret.
    """

    def rows(self, consumer_group: str) -> list[Row]:
        """The group's rows, of all its topic sets, in the table's newest version; [] where there is no table."""

    def transaction_version(self, key: GroupKey) -> int | None:
        """The sequence of the last commit of the key's group, by its transactions, in the version that `rows` saw last.

        None where there is none or it is not known: rows that somebody deletes by hand take it with them then.
        """

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        """Put `rows` in the place of all rows of `key`, in one commit on top of the version that `rows` saw last.

        Raises Conflict if the group was written since, by this key or under another topic set. Commits of other groups
        do not matter.
        """

    def maintain(self, retention_hours: int | None) -> int:
        """Write a checkpoint, drop log entries and files past their retention; returns how many files went.

        `retention_hours` None means a week, or what the table's own properties say. Does not disturb the other methods'
        caller.
        """
