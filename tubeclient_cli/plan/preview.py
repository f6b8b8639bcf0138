"""Computes and prints what `tubeclient plan` shows: each strategy's assignment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tubeclient.admin import Admin
from tubeclient.assignment import STRATEGIES, Assignment, Hints, assign, node_of
from tubeclient.errors import ConfigurationError, UnknownGroup
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.names import near_names
from tubeclient_cli.common.cluster import no_topic
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import print_table, spans

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["lag_of", "partitions_of", "plan_json", "plans", "print_plans"]


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
    strategies: Collection[str], partitions: Sequence[PartitionKey], source_count: int, hints: Hints
) -> tuple[dict[str, Assignment], dict[str, str]]:
    """An assignment by each of the named strategies, or by all; and for each unavailable strategy the reason.
    ConfigurationError if a named strategy is unavailable."""
    if hints.previous is None:
        # A group's default strategy.
        hints = replace(hints, previous=node_of(assign("modulo", partitions, source_count)))
    made, refused = {}, {}
    for strategy in strategies or STRATEGIES:
        try:
            made[strategy] = assign(strategy, partitions, source_count, hints)
        except ConfigurationError as error:
            if strategies:
                raise
            refused[strategy] = str(error)
    return made, refused


def print_plans(
    console: Console,
    made: Mapping[str, Assignment],
    refused: Mapping[str, str],
    partitions: Sequence[PartitionKey],
    lag: Mapping[PartitionKey, int] | None,
) -> None:
    """All plans, one below the other, and a line for each strategy that is unavailable."""
    brokers = {key.broker_id for key in partitions}
    rows = "" if lag is None else f", {sum(lag.values()):,} rows to read at most"
    console.print(f"{counted(len(partitions), 'partition')} on {counted(len(brokers), 'broker')}{rows}")
    for strategy, nodes in made.items():
        sizes, of_rows = loads(nodes), loads(nodes, lag)
        console.print()
        console.print(
            f"{strategy}: {min(sizes)} to {max(sizes)} partitions per node, at most {overload(sizes):.2f} times"
            f" the mean{'' if lag is None else f'; in rows {overload(of_rows):.2f} times'}",
            soft_wrap=True,
        )
        cells = [
            (str(node), f"{len(keys):,}", "" if lag is None else f"{_rows(keys, lag):,}", ", ".join(spans(keys)))
            for node, keys in enumerate(nodes)
        ]
        print_table(console, ("node", "partitions", "rows", "which"), cells, right=("node", "partitions", "rows"))
    if refused:
        console.print()
    for reason in refused.values():
        console.print(f"left out: {reason}", soft_wrap=True)


def plan_json(
    made: Mapping[str, Assignment], refused: Mapping[str, str], lag: Mapping[PartitionKey, int] | None
) -> dict[str, Any]:
    """The plans as one JSON object."""
    return {
        "strategies": {
            strategy: {
                "nodes": [
                    {
                        "node": node,
                        "partitions": [str(key) for key in keys],
                        "rows": None if lag is None else _rows(keys, lag),
                    }
                    for node, keys in enumerate(nodes)
                ]
            }
            for strategy, nodes in made.items()
        },
        "leftOut": dict(refused),
    }


def _rows(keys: Collection[PartitionKey], lag: Mapping[PartitionKey, int]) -> int:
    return sum(lag.get(key, 0) for key in keys)


def loads(nodes: Assignment, lag: Mapping[PartitionKey, int] | None = None) -> list[int]:
    """The partitions of each node, or with `lag` their rows."""
    return [len(keys) if lag is None else sum(lag.get(key, 0) for key in keys) for keys in nodes]


def overload(sizes: list[int]) -> float:
    """The largest node's load divided by the mean: 1 is perfectly even."""
    return max(sizes) * len(sizes) / sum(sizes) if any(sizes) else 1.0
