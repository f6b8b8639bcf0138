"""A clock that tests set by hand, and tables on the local disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tubeclient.keys import PartitionKey

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
