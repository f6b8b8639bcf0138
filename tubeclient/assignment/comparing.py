"""Whose node a partition has, and how balanced an assignment is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tubeclient.assignment.hints import Assignment
from tubeclient.keys import PartitionKey

__all__ = ["Balance", "balance", "node_of"]


def node_of(assignment: Assignment) -> dict[PartitionKey, int]:
    """The node id of each partition, as in `Hints.previous` and `Hints.plan`."""
    return {key: node for node, keys in enumerate(assignment) for key in keys}


@dataclass(frozen=True, slots=True)
class Balance:
    """The loads of the nodes, in partitions or in rows."""

    smallest: int
    largest: int
    mean: float

    @property
    def overload(self) -> float:
        """The largest node's load divided by the mean: 1 is perfectly even."""
        return self.largest / self.mean if self.mean else 1.0


def balance(assignment: Assignment, lag: Mapping[PartitionKey, int] | None = None) -> Balance:
    """The balance of the numbers of partitions, or with `lag` of their rows."""
    sizes = [len(keys) if lag is None else sum(lag.get(key, 0) for key in keys) for keys in assignment]
    return Balance(min(sizes), max(sizes), sum(sizes) / len(sizes))
