"""Computes what `tubeclient plan` shows: each strategy's assignment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tubeclient.admin import Admin
from tubeclient.assignment import (
    STRATEGIES,
    Assignment,
    Hints,
    assign,
    node_of,
)
from tubeclient.errors import ConfigurationError, UnknownGroup
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.names import near_names
from tubeclient_cli.common.cluster import no_topic

__all__ = ["StrategyPlan", "lag_of", "partitions_of", "plans"]


@dataclass(frozen=True, slots=True)
class StrategyPlan:
    """One strategy's plan for the partitions."""

    strategy: str
    by_node: Assignment


def partitions_of(admin: Admin, topics: Collection[str]) -> list[PartitionKey]:
    """All configured partitions of the topics, sorted. ConfigurationError for a topic that is not deployed."""
    found = admin.topics(topics)
    missing = sorted(set(topics) - {topic.name for topic in found})
    if missing:
        raise no_topic(missing[0], near_names(missing[:1], admin.topic_names()))
    return sorted(key for topic in found for key in topic.partitions())


def lag_of(admin: Admin, group: str, partitions: Collection[PartitionKey]) -> dict[PartitionKey, int]:
    """Upper bound of the unread rows of each partition, from the positions on the brokers. A partition unknown there
    counts as unread. A broker that is not in service has nothing to read."""
    topics = {key.topic for key in partitions}
    bounds = admin.store_bounds(topics)
    try:
        positions = admin.group_offsets(group, topics).committed
    except UnknownGroup:
        positions = {}
    lag = dict.fromkeys(partitions, 0)
    for key in partitions:
        if key.store in bounds:
            low, high = bounds[key.store]
            lag[key] = max(0, high - max(low, positions.get(key, low))) // INDEX_ENTRY_BYTES
    return lag


def plans(
    strategies: Collection[str],
    partitions: Sequence[PartitionKey],
    source_count: int,
    hints: Hints,
) -> tuple[list[StrategyPlan], dict[str, str]]:
    """A plan by each of the named strategies, or by all; and for each unavailable strategy the reason.

    ConfigurationError if a named strategy is unavailable.
    """
    if hints.previous is None:
        # A group's default strategy.
        hints = replace(hints, previous=node_of(assign("modulo", partitions, source_count)))
    made, refused = [], {}
    for strategy in strategies or STRATEGIES:
        try:
            by_node = assign(strategy, partitions, source_count, hints)
        except ConfigurationError as error:
            if strategies:
                raise
            refused[strategy] = str(error)
        else:
            made.append(StrategyPlan(strategy, by_node))
    return made, refused
