"""Further data for strategies, and the type of a strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

Assignment = list[list[PartitionKey]]
"""One sorted list of partitions per node, by node id."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """Data that some strategies use, the same on every node of the group; other strategies ignore it.

    ConfigurationError if `virtual_nodes` is below 1.
    """

    previous: Mapping[PartitionKey, int] | None = None
    """The former node id of each partition. Empty at a group's first start."""
    lag: Mapping[PartitionKey, int] | None = None
    """Unread rows, 0 or more, 0 for partitions not named."""
    rooms: Mapping[int, str] | None = None
    """The machine room of each broker id: for `machine_room` and `machine_room_nearby`."""
    node_rooms: Mapping[int, str] | None = None
    """The machine room of each node id: for `machine_room_nearby`, and for `machine_room` if nodes keep to rooms."""
    plan: Mapping[PartitionKey, int] | None = None
    """The node id of every partition: for `config`."""
    node_names: Sequence[str] | None = None
    """A name for each node, by node id: for `consistent_hash`. Without it a node's name is its id in decimal digits."""
    virtual_nodes: int = 10
    """The number of points of each node on the ring of `consistent_hash`; 10 is RocketMQ's default."""

    def __post_init__(self) -> None:
        if self.virtual_nodes < 1:
            raise ConfigurationError(f"virtual_nodes must be 1 or more, not {self.virtual_nodes}")

    def names(self, source_count: int) -> list[str]:
        """The name of each node; ConfigurationError unless `node_names` has a distinct name for each."""
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

It must be a pure function: every node of a group computes it, and all must get the same result.
"""
