"""A storage that lets a test put another writer's commit into its commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offsets_store.progress import GroupKey
from offsets_store.rows import Row
from offsets_store.storage import Storage
from tubeclient.names import GroupName


class Between:
    """Another storage, but `act` is called before its next commit, after the writer's look at the table; `after` after
    it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.act: Callable[[], object] | None = None
        self.after: Callable[[], object] | None = None

    def rows(self, consumer_group: GroupName) -> list[Row]:
        return self._storage.rows(consumer_group)

    def transaction_version(self, key: GroupKey) -> int | None:
        return self._storage.transaction_version(key)

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        act, self.act = self.act, None
        if act is not None:
            act()
        self._storage.replace(key, rows, sequence)
        after, self.after = self.after, None
        if after is not None:
            after()
