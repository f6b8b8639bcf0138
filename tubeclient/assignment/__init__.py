"""Assignment: pure functions from the full, sorted set of configured partitions to the nodes of a group.

Every client of a group computes the same from the same set. So the set is the configured one: a partition that cannot
be read for now stays in it.
"""

from tubeclient.assignment.by_hash import consistent_hash, hash_modulo
from tubeclient.assignment.by_history import sticky
from tubeclient.assignment.by_index import averagely, averagely_by_circle, modulo
from tubeclient.assignment.by_lag import backlog
from tubeclient.assignment.by_plan import config
from tubeclient.assignment.by_room import machine_room, machine_room_nearby
from tubeclient.assignment.comparing import Balance, balance, node_of
from tubeclient.assignment.hints import NO_HINTS, Assignment, Hint, Hints, Strategy, goes_by
from tubeclient.assignment.strategies import STRATEGIES, assign, check_strategy, hints_of, strategy_named

__all__ = [
    "NO_HINTS",
    "STRATEGIES",
    "Assignment",
    "Balance",
    "Hint",
    "Hints",
    "Strategy",
    "assign",
    "averagely",
    "averagely_by_circle",
    "backlog",
    "balance",
    "check_strategy",
    "config",
    "consistent_hash",
    "goes_by",
    "hash_modulo",
    "hints_of",
    "machine_room",
    "machine_room_nearby",
    "modulo",
    "node_of",
    "sticky",
    "strategy_named",
]
