"""A clock that tests set by hand, tables on the local disk, and a storage into whose commits others come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from offsets_store.rows import Row
from offsets_store.run import Storage
from tubeclient.keys import PartitionKey
from tubeclient.names import GroupName

KEY = GroupKey("clicks_etl", ["clicks"])
FIRST = PartitionKey(1, "clicks", 0)
SECOND = PartitionKey(1, "clicks", 10_000)


@dataclass
class Clock:
    """Milliseconds since 1970; moves only when told."""

    now: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def at(offsets: Mapping[PartitionKey, int]) -> list[PartitionProgress]:
    """Progress at these offsets, with the broker 280 bytes (ten entries) further on, read by node 0."""
    return [PartitionProgress(partition, offset, offset + 280, 0) for partition, offset in offsets.items()]


class Between:
    """Another storage, but `act` is called before its next commit, after the writer's look at the table; `after` after
    it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.act: Callable[[], object] | None = None
        self.after: Callable[[], object] | None = None

    def rows(self, consumer_group: GroupName) -> list[Row]:
        return self._storage.rows(consumer_group)

    def transaction_version(self) -> int | None:
        return self._storage.transaction_version()

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        act, self.act = self.act, None
        if act is not None:
            act()
        self._storage.replace(key, rows, sequence)
        after, self.after = self.after, None
        if after is not None:
            after()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "offsets")


@pytest.fixture
def open_table(uri: str, clock: Clock) -> Callable[[], OffsetsTable]:
    """Opens the same table anew, as another process would."""
    return lambda: OffsetsTable(uri, clock_ms=clock, client_version="9.9")


@pytest.fixture
def table(open_table: Callable[[], OffsetsTable]) -> OffsetsTable:
    return open_table()
