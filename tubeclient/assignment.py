"""Who reads what: pure functions from the full, sorted set of configured partitions to the nodes of a group.

Every client of a group computes the same from the same set, so the set is the configured one: a partition that
cannot be read for now keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.wire.payload import java_string_hash

__all__ = ["STRATEGIES", "Assignment", "Strategy", "assign", "hash_modulo", "modulo"]

Assignment = list[list[PartitionKey]]
"""One sorted list of partitions for each node, by node id."""

Strategy = Callable[[list[PartitionKey], int], Assignment]
"""Takes the sorted partitions and sourceCount."""


def modulo(keys: list[PartitionKey], source_count: int) -> Assignment:
    """Deal the sorted partitions out one by one: partition number i goes to node i % sourceCount.

    Sizes differ by one at most.
    """
    return [keys[node_id::source_count] for node_id in range(source_count)]


def hash_modulo(keys: list[PartitionKey], source_count: int) -> Assignment:
    """Node = Java hash of the key's text, as an unsigned 32-bit number, % sourceCount.

    It is what the example client of Apache TubeMQ does, for groups shared with such clients; how even it is depends
    on the names.
    """
    nodes: Assignment = [[] for _ in range(source_count)]
    for key in keys:
        nodes[(java_string_hash(str(key)) & 0xFFFFFFFF) % source_count].append(key)
    return nodes


STRATEGIES: dict[str, Strategy] = {"hash_modulo": hash_modulo, "modulo": modulo}


def assign(strategy: str, keys: Iterable[PartitionKey], source_count: int) -> Assignment:
    """Deal partitions, given in any order, to nodes 0 to sourceCount - 1; ConfigurationError for an unknown
    strategy.
    """
    if strategy not in STRATEGIES:
        raise ConfigurationError(f"assignment strategy {strategy!r} is unknown; there are {', '.join(STRATEGIES)}")
    if source_count < 1:
        raise ConfigurationError(f"sourceCount must be 1 or more, not {source_count}")
    return STRATEGIES[strategy](sorted(set(keys)), source_count)
