"""The table of strategies, and assigning by name: with one of these, or a user's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType

from tubeclient.assignment.few_moves import backlog, sticky
from tubeclient.assignment.hints import NO_HINTS, Assignment, Hints, Strategy
from tubeclient.assignment.named import (
    averagely,
    averagely_by_circle,
    config,
    consistent_hash,
    hash_modulo,
    machine_room,
    machine_room_nearby,
    modulo,
)
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "averagely": averagely,
        "averagely_by_circle": averagely_by_circle,
        "backlog": backlog,
        "config": config,
        "consistent_hash": consistent_hash,
        "hash_modulo": hash_modulo,
        "machine_room": machine_room,
        "machine_room_nearby": machine_room_nearby,
        "modulo": modulo,
        "sticky": sticky,
    }
)


def assign(strategy: str, keys: Iterable[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign partitions, given in any order, to nodes 0 to sourceCount - 1.

    `strategy` is a name from STRATEGIES, or "package.module:function" for a user's own. Its result is checked: each
    partition must have one node. ConfigurationError for a strategy that cannot be found, lacks a hint, fails, or omits
    a partition.
    """
    chosen = strategy_named(strategy)
    if source_count < 1:
        raise ConfigurationError(f"sourceCount must be 1 or more, not {source_count}")
    ordered = sorted(dict.fromkeys(keys))
    if strategy in STRATEGIES:
        return chosen(ordered, source_count, hints)
    try:
        assigned = [list(mine) for mine in chosen(tuple(ordered), source_count, hints)]
    except TubeError:
        raise
    except Exception as error:
        raise ConfigurationError(f"assignment strategy {strategy!r} failed: {error!r}") from error
    _check(strategy, ordered, source_count, assigned)
    return [sorted(mine) for mine in assigned]


def check_strategy(strategy: str, source_count: int, hints: Hints = NO_HINTS) -> None:
    """Refuse what is wrong for any partitions: an unknown strategy, a missing hint, a sourceCount below 1."""
    strategy_named(strategy)
    if strategy in STRATEGIES:
        assign(strategy, (), source_count, hints if hints.plan is None else replace(hints, plan={}))


def goes_by_previous(strategy: str) -> bool:
    """Whether `Hints.previous` may make a difference. A user's own strategy may use all hints."""
    return strategy in ("sticky", "backlog") or strategy not in STRATEGIES


def goes_by_lag(strategy: str) -> bool:
    """Whether `Hints.lag` may make a difference."""
    return strategy == "backlog" or strategy not in STRATEGIES


def strategy_named(strategy: str) -> Strategy:
    """The function of that name; imports the module of a user's own. ConfigurationError if there is none."""
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
        raise ConfigurationError(
            f"assignment strategy {strategy!r}: module {module_name} has no {function_name}"
        ) from None
    except Exception as error:
        raise ConfigurationError(
            f"assignment strategy {strategy!r}: module {module_name} cannot be imported: {error!r}"
        ) from error
    if not callable(found):
        raise ConfigurationError(f"assignment strategy {strategy!r} is not a function but {found!r}")
    own: Strategy = found
    return own


def _check(strategy: str, keys: Sequence[PartitionKey], source_count: int, assigned: Assignment) -> None:
    """Check that each partition has exactly one node."""
    if len(assigned) != source_count:
        raise ConfigurationError(
            f"assignment strategy {strategy!r} returned {len(assigned)} lists for {source_count} nodes"
        )
    known = set(keys)
    node_of: dict[PartitionKey, int] = {}
    for node, mine in enumerate(assigned):
        for key in mine:
            if key not in known:
                raise ConfigurationError(
                    f"assignment strategy {strategy!r} gives node {node} the unknown partition {key!s}"
                )
            if key in node_of:
                raise ConfigurationError(
                    f"assignment strategy {strategy!r} gives partition {key} to node {node_of[key]} and again to "
                    f"node {node}"
                )
            node_of[key] = node
    for key in keys:
        if key not in node_of:
            raise ConfigurationError(f"assignment strategy {strategy!r} gives partition {key} to no node")


def node_of(assignment: Assignment) -> dict[PartitionKey, int]:
    """The node id of each partition, as in `Hints.previous` and `Hints.plan`."""
    return {key: node for node, keys in enumerate(assignment) for key in keys}
