"""Assignment: pure functions from the full, sorted set of configured partitions to the nodes of a group.

Every client of a group computes the same from the same set. So the set is the configured one: a partition that cannot
be read for now stays in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType

from tubeclient.assignment import strategies
from tubeclient.assignment.strategies import NO_HINTS, Assignment, Hints, Strategy
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey

__all__ = [
    "NO_HINTS",
    "STRATEGIES",
    "Assignment",
    "Hints",
    "Strategy",
    "assign",
    "check_strategy",
    "goes_by_lag",
    "goes_by_previous",
    "node_of",
    "strategy_named",
]

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "averagely": strategies.averagely,
        "averagely_by_circle": strategies.modulo,
        "backlog": strategies.backlog,
        "config": strategies.config,
        "consistent_hash": strategies.consistent_hash,
        "hash_modulo": strategies.hash_modulo,
        "machine_room": strategies.machine_room,
        "machine_room_nearby": strategies.machine_room_nearby,
        "modulo": strategies.modulo,
        "sticky": strategies.sticky,
    }
)


def assign(strategy: str, keys: Iterable[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign partitions, given in any order, to nodes 0 to sourceCount - 1.

    Args:
        strategy: A name from `STRATEGIES`, or "package.module:function" for a function of yours.
        hints: What the strategy needs besides the partitions.

    Returns:
        A sorted list of partitions for each node. Each partition has one node.

    Raises:
        ConfigurationError: `source_count` is below 1. Or the strategy cannot be found, lacks a hint, fails, omits a
            partition, or gives one to two nodes.
    """
    chosen = strategy_named(strategy)
    if source_count < 1:
        raise ConfigurationError(f"sourceCount must be 1 or more, not {source_count}")
    ordered = sorted(dict.fromkeys(keys))
    try:
        assigned = [list(mine) for mine in chosen(tuple(ordered), source_count, hints)]
    except TubeError:
        raise
    except Exception as error:
        raise ConfigurationError(f"assignment strategy {strategy!r} failed: {error!r}") from error
    _check(strategy, ordered, source_count, assigned)
    return [sorted(mine) for mine in assigned]


def check_strategy(strategy: str, source_count: int, hints: Hints = NO_HINTS) -> None:
    """Check what can be checked without partitions: the strategy's name, its hints and the sourceCount.

    >>> check_strategy("modulo", 0)
    Traceback (most recent call last):
    tubeclient.errors.ConfigurationError: sourceCount must be 1 or more, not 0

    Raises:
        ConfigurationError: The strategy is unknown or lacks a hint, or `source_count` is below 1.
    """
    strategy_named(strategy)
    if strategy in STRATEGIES:
        assign(strategy, (), source_count, hints if hints.plan is None else replace(hints, plan={}))


def goes_by_previous(strategy: str) -> bool:
    """Return whether `Hints.previous` may make a difference. A strategy of yours may use all hints.

    >>> goes_by_previous("modulo")
    False
    """
    return strategy in ("sticky", "backlog") or strategy not in STRATEGIES


def goes_by_lag(strategy: str) -> bool:
    """Return whether `Hints.lag` may make a difference. A strategy of yours may use all hints.

    >>> goes_by_lag("backlog")
    True
    """
    return strategy == "backlog" or strategy not in STRATEGIES


def strategy_named(strategy: str) -> Strategy:
    """Return the function of that name. For a strategy of yours, import its module.

    >>> len(strategy_named("modulo")([PartitionKey(1, "clicks", 0)], 2, Hints()))
    2

    Raises:
        ConfigurationError: There is none, or its module cannot be imported.
    """
    if strategy in STRATEGIES:
        return STRATEGIES[strategy]
    module_name, colon, function_name = strategy.partition(":")
    if not (colon and module_name and function_name.isidentifier()):
        raise ConfigurationError(
            f"assignment strategy {strategy!r} is unknown; use one of {', '.join(STRATEGIES)}, or your own as "
            "package.module:function"
        )
    try:
        found = getattr(import_module(module_name), function_name)
    except AttributeError:
        raise ConfigurationError(f"assignment strategy {strategy!r}: {module_name} has no {function_name}") from None
    except Exception as error:
        raise ConfigurationError(f"assignment strategy {strategy!r} cannot be imported: {error!r}") from error
    if not callable(found):
        raise ConfigurationError(f"assignment strategy {strategy!r} is not a function but {found!r}")
    own: Strategy = found
    return own


def _check(strategy: str, keys: Sequence[PartitionKey], source_count: int, assigned: Assignment) -> None:
    """Check that each partition has exactly one node."""
    fault, known, found = "", set(keys), node_of(assigned)
    given = Counter(key for mine in assigned for key in mine)
    if len(assigned) != source_count:
        fault = f"returned {len(assigned)} lists for {source_count} nodes"
    elif unknown := [key for key in given if key not in known]:
        fault = f"gives node {found[unknown[0]]} the unknown partition {unknown[0]}"
    elif twice := [key for key in keys if given[key] > 1]:
        nodes = [str(node) for node, mine in enumerate(assigned) for key in mine if key == twice[0]]
        fault = f"gives partition {twice[0]} to node {' and again to node '.join(nodes)}"
    elif missing := [key for key in keys if key not in found]:
        fault = f"gives partition {missing[0]} to no node"
    if fault:
        raise ConfigurationError(f"assignment strategy {strategy!r} {fault}")


def node_of(assignment: Assignment) -> dict[PartitionKey, int]:
    """Return the node id of each partition, as in `Hints.previous` and `Hints.plan`.

    >>> node_of([[PartitionKey(1, "clicks", 0)]])
    {PartitionKey(broker_id=1, topic='clicks', partition_id=0): 0}
    """
    return {key: node for node, keys in enumerate(assignment) for key in keys}
