"""The small interface between the offsets table and a Delta writer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from offsets_store.progress import GroupKey
from offsets_store.rows import Row
from tubeclient.names import GroupName

__all__ = ["Conflict", "Storage", "TableCommit"]


class Conflict(Exception):
    """The commit lost against another writer's; nothing was written. The text fits into an error message."""


class Storage(Protocol):
    """One Delta table; the first write creates it. For one thread at a time.

    Every method raises `OffsetsTableError` if the table cannot be used. Its text holds no secret.
    """

    def rows(self, consumer_group: GroupName) -> list[Row]:
        """The group's rows, of all its topic sets, in the table's newest version; [] if there is no table."""

    def transaction_version(self, key: GroupKey) -> int | None:
        """The sequence of the group's last commit, from the Delta transactions of the version that `rows` read last.

        None if there is none or it is unknown; then rows deleted by hand take the sequence with them.
        """

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        """Replace all rows of `key` by `rows`, in one commit on top of the version that `rows` read last.

        Raises Conflict if the group was written since, under any topic set. Commits of other groups do not matter.
        """


class TableCommit(NamedTuple):
    """One commit of the table, from its log."""

    version: int
    committed_at: datetime
    """UTC."""
    operation: str
    group: str | None
    """The only group whose rows it changed; None if the log does not say."""
    sequence: int | None
    """The group's number of this commit; None if the log does not say."""
