"""What to read of a topic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_source.offsets.offset_spec import OffsetSpec
    from tubeclient.keys import PartitionKey

__all__ = ["Wanted", "listed"]

_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read."""

    topic: str
    tags: frozenset[str]
    partitions: tuple[str, ...]
    """Keys; empty: all."""
    start: OffsetSpec
    time_zone: str
    """Of the producers' clocks; an IANA name."""
    follow: bool


def listed(partitions: Collection[PartitionKey]) -> str:
    """Some partitions, for a text."""
    names = ", ".join(map(str, sorted(partitions)[:_NAMED]))
    more = f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else ""
    return f"partition{'s' if len(partitions) > 1 else ''} {names}{more}"
