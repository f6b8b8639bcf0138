"""What a strategy may know besides the partitions and the number of nodes, how it says so, and its shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["NO_HINTS", "Assignment", "Hint", "Hints", "Strategy", "declared_hints", "goes_by"]

_DECLARED = "goes_by"

Assignment = list[list[PartitionKey]]
"""One sorted list of partitions for each node, by node id."""


class Hint(StrEnum):
    """What a strategy may go by: each is a field of `Hints`."""

    PREVIOUS = "previous"
    LAG = "lag"
    ROOMS = "rooms"
    NODE_ROOMS = "node_rooms"
    PLAN = "plan"
    NODE_NAMES = "node_names"
    VIRTUAL_NODES = "virtual_nodes"


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What some strategies go by, the same on every node of the group; the others pass it over.

    ConfigurationError where `virtual_nodes` is below 1.
    """

    previous: Mapping[PartitionKey, int] | None = None
    """The node id that had each partition before. Empty at a group's first start."""
    lag: Mapping[PartitionKey, int] | None = None
    """Rows not read yet, 0 or more, 0 for partitions not named."""
    rooms: Mapping[int, str] | None = None
    """The machine room of each broker id: for `machine_room` and `machine_room_nearby`."""
    node_rooms: Mapping[int, str] | None = None
    """The machine room of each node id: for `machine_room_nearby`, and for `machine_room` if nodes keep to rooms."""
    plan: Mapping[PartitionKey, int] | None = None
    """The node id of every partition: for `config`."""
    node_names: Sequence[str] | None = None
    """A name for each node, by node id: for `consistent_hash`. Without it a node's name is its id in decimal digits."""
    virtual_nodes: int = 10
    """In how many places each node stands on the ring of `consistent_hash`; 10 is RocketMQ's default."""

    def __post_init__(self) -> None:
        if self.virtual_nodes < 1:
            raise ConfigurationError(f"virtual_nodes must be 1 or more, not {self.virtual_nodes}")

    def names(self, source_count: int) -> list[str]:
        """The name of each node; ConfigurationError unless `node_names` gives each node one of its own."""
        if self.node_names is None:
            return [str(node) for node in range(source_count)]
        names = list(self.node_names)
        if len(names) != source_count:
            raise ConfigurationError(f"node_names names {len(names)} nodes, but sourceCount is {source_count}")
        if len(set(names)) < len(names):
            twice = sorted(name for name in set(names) if names.count(name) > 1)
            raise ConfigurationError(f"node_names gives several nodes the name {twice[0]!r}; names must differ")
        return names


NO_HINTS = Hints()

Strategy = Callable[[Sequence[PartitionKey], int, Hints], Assignment]
"""Takes the sorted partitions, sourceCount (1 or more) and hints; returns a sorted list for each node.

It must be a pure function: every node of a group computes it for itself, and all must come to the same.
"""

_S = TypeVar("_S", bound=Strategy)


def goes_by(*hints: Hint) -> Callable[[_S], _S]:
    """A decorator by which a strategy says what it goes by: no other hint makes a difference to it.

    Whoever assigns works out these hints only. A strategy without it may go by all of them.
    """

    def declare(strategy: _S) -> _S:
        setattr(strategy, _DECLARED, frozenset(hints))
        return strategy

    return declare


def declared_hints(strategy: Strategy) -> frozenset[Hint]:
    """What a strategy says that it goes by; all hints where it says nothing."""
    found: frozenset[Hint] = getattr(strategy, _DECLARED, frozenset(Hint))
    return found
