"""What a strategy may know besides the partitions and the number of nodes, and the shape of a strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["NO_HINTS", "Assignment", "Hints", "Strategy"]

Assignment = list[list[PartitionKey]]
"""One sorted list of partitions for each node, by node id."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What some strategies need to know, the same on every node of the group; the others pass it over.

    ConfigurationError where `virtual_nodes` is below 1.
    """

    previous: Mapping[PartitionKey, int] | None = None
    """The node id that had each partition before: for `sticky` and `backlog`. Empty at a group's first start."""
    lag: Mapping[PartitionKey, int] | None = None
    """Rows not read yet, 0 or more, 0 for partitions not named: for `backlog`."""
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
