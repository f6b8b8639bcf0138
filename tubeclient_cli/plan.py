"""What `tubeclient plan` finds out: who would read what by each strategy, and what would move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tubeclient.admin import Admin
from tubeclient.assignment import (
    STRATEGIES,
    Assignment,
    Changes,
    Hints,
    assign,
    broker_added,
    broker_lost,
    node_added,
    node_lost,
)
from tubeclient.errors import ConfigurationError, UnknownGroup
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey

__all__ = ["StrategyPlan", "lag_of", "partitions_of", "plan", "plans"]


@dataclass(frozen=True, slots=True)
class StrategyPlan:
    """What one strategy would do with the partitions."""

    strategy: str
    by_node: Assignment
    what_if: Mapping[str, Changes | str]
    """By what happens; a text says why it cannot be told."""


def partitions_of(admin: Admin, topics: Collection[str]) -> list[PartitionKey]:
    """All configured partitions of the topics, sorted. ConfigurationError for a topic that is not deployed."""
    found = admin.topics(topics)
    missing = sorted(set(topics) - {topic.name for topic in found})
    if missing:
        raise ConfigurationError(f"no broker of the cluster has topic {missing[0]}; check the name")
    return sorted(key for topic in found for key in topic.partitions())


def lag_of(admin: Admin, group: str, topics: Collection[str]) -> dict[PartitionKey, int]:
    """At most so many rows of each partition the group has not read, by the brokers' books; what is unknown there it
    has read nothing of.
    """
    bounds = admin.store_bounds(topics)
    try:
        positions = admin.group_offsets(group, topics).committed
    except UnknownGroup:
        positions = {}
    lag = {}
    for key in partitions_of(admin, topics):
        held = bounds[key.store]
        begin = max(held.min_offset, positions.get(key, held.min_offset))
        lag[key] = max(0, held.max_offset - begin) // INDEX_ENTRY_BYTES
    return lag


def plans(
    strategies: Collection[str],
    partitions: Sequence[PartitionKey],
    source_count: int,
    hints: Hints,
    *,
    lost_nodes: Collection[int] = (),
    lost_brokers: Collection[int] = (),
) -> tuple[list[StrategyPlan], dict[str, str]]:
    """A plan by each of the named strategies, or by all that there are; and of those that cannot be had, why not.

    ConfigurationError where one that was named cannot be had, or a node or broker that is lost is not there.
    """
    strange = [f"node {node}" for node in lost_nodes if node >= source_count]
    strange += [f"broker {broker}" for broker in lost_brokers if broker not in {key.broker_id for key in partitions}]
    if strange:
        raise ConfigurationError(f"{strange[0]} cannot be lost; it has none of the partitions")
    made, refused = [], {}
    for strategy in strategies or STRATEGIES:
        try:
            made.append(
                plan(strategy, partitions, source_count, hints, lost_nodes=lost_nodes, lost_brokers=lost_brokers)
            )
        except ConfigurationError as error:
            if strategies:
                raise
            refused[strategy] = str(error)
    return made, refused


def plan(
    strategy: str,
    partitions: Sequence[PartitionKey],
    source_count: int,
    hints: Hints,
    *,
    lost_nodes: Collection[int] = (),
    lost_brokers: Collection[int] = (),
) -> StrategyPlan:
    """What `strategy` would do now, and with a node or a broker more or without one of these."""
    if hints.previous is None:
        # What a group has unless it was told otherwise.
        dealt = assign("modulo", partitions, source_count)
        hints = replace(hints, previous={key: node for node, keys in enumerate(dealt) for key in keys})
    by_node = assign(strategy, partitions, source_count, hints)
    events: dict[str, Callable[[], Changes]] = {
        "a node more": lambda: node_added(strategy, partitions, source_count, hints),
        "a broker more": lambda: broker_added(strategy, partitions, source_count, hints),
        **{
            f"without node {node}": lambda node=node: node_lost(strategy, partitions, source_count, node, hints)  # type: ignore[misc]
            for node in sorted(set(lost_nodes))
        },
        **{
            f"without broker {broker}": lambda broker=broker: broker_lost(  # type: ignore[misc]
                strategy, partitions, source_count, broker, hints
            )
            for broker in sorted(set(lost_brokers))
        },
    }
    what_if: dict[str, Changes | str] = {}
    for name, compute in events.items():
        try:
            what_if[name] = compute()
        except ConfigurationError as error:
            what_if[name] = str(error)
    return StrategyPlan(strategy, by_node, what_if)
