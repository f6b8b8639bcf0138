"""Assignment: pure functions from the full, sorted set of configured partitions to the nodes of a group.

Every client of a group computes the same from the same set. So the set is the configured one: a partition that cannot
be read for now stays in it.
"""

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
from tubeclient.assignment.strategies import (
    STRATEGIES,
    assign,
    check_strategy,
    goes_by_lag,
    goes_by_previous,
    node_of,
    strategy_named,
)

__all__ = [
    "NO_HINTS",
    "STRATEGIES",
    "Assignment",
    "Hints",
    "Strategy",
    "assign",
    "averagely",
    "averagely_by_circle",
    "backlog",
    "check_strategy",
    "config",
    "consistent_hash",
    "goes_by_lag",
    "goes_by_previous",
    "hash_modulo",
    "machine_room",
    "machine_room_nearby",
    "modulo",
    "node_of",
    "sticky",
    "strategy_named",
]
