"""Compares two assignments, and measures how balanced one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tubeclient.assignment.hints import Assignment
from tubeclient.html_table import html_table
from tubeclient.keys import PartitionKey

__all__ = ["Balance", "Changes", "NodeChanges", "balance", "changes", "node_of"]


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """The changes of one node; a partition is in at most one of the five."""

    kept: tuple[PartitionKey, ...] = ()
    received: tuple[PartitionKey, ...] = ()
    """From other nodes."""
    given_up: tuple[PartitionKey, ...] = ()
    """To other nodes."""
    new: tuple[PartitionKey, ...] = ()
    """That no node had before."""
    gone: tuple[PartitionKey, ...] = ()
    """That no node has any more."""


@dataclass(frozen=True)
class Changes:
    """The changes from one assignment to another."""

    by_node: Mapping[str, NodeChanges]
    """By the node's name: the nodes of both assignments, those of the second first."""

    @cached_property
    def kept(self) -> int:
        """How many partitions stay with their node."""
        return sum(len(of_node.kept) for of_node in self.by_node.values())

    @cached_property
    def moved(self) -> int:
        """How many partitions have another node now."""
        return sum(len(of_node.received) for of_node in self.by_node.values())

    @cached_property
    def new(self) -> int:
        """How many partitions had no node before."""
        return sum(len(of_node.new) for of_node in self.by_node.values())

    @cached_property
    def gone(self) -> int:
        """How many partitions have no node any more."""
        return sum(len(of_node.gone) for of_node in self.by_node.values())

    @property
    def churn(self) -> float:
        """The share of common partitions that have moved, from 0 to 1."""
        return self.moved / (self.kept + self.moved) if self.moved else 0.0

    def _repr_html_(self) -> str:
        """For notebooks: the numbers of partitions by node."""
        rows = (
            (name, *map(len, (one.kept, one.received, one.given_up, one.new, one.gone)))
            for name, one in self.by_node.items()
        )
        title = f"{self.moved:,} of {self.kept + self.moved:,} partitions move to another node ({self.churn:.0%})"
        columns = ("node", "kept", "received", "given up", "new", "gone")
        return html_table(title, columns, rows, count=len(self.by_node))


def node_of(assignment: Assignment) -> dict[PartitionKey, int]:
    """The node id of each partition, as in `Hints.previous` and `Hints.plan`."""
    return {key: node for node, keys in enumerate(assignment) for key in keys}


def changes(
    before: Assignment,
    after: Assignment,
    *,
    names_before: Sequence[str] | None = None,
    names_after: Sequence[str] | None = None,
) -> Changes:
    """Compare two assignments node by node. Nodes with the same name are the same; names are by node id, which is also
    the default name."""
    old, new = _by_name(before, names_before), _by_name(after, names_after)
    had = {key: name for name, keys in old.items() for key in keys}
    has = {key: name for name, keys in new.items() for key in keys}
    return Changes(
        {
            name: NodeChanges(
                kept=tuple(key for key in new.get(name, ()) if had.get(key) == name),
                received=tuple(key for key in new.get(name, ()) if had.get(key, name) != name),
                given_up=tuple(key for key in old.get(name, ()) if has.get(key, name) != name),
                new=tuple(key for key in new.get(name, ()) if key not in had),
                gone=tuple(key for key in old.get(name, ()) if key not in has),
            )
            for name in {**new, **old}
        }
    )


def _by_name(assignment: Assignment, names: Sequence[str] | None) -> dict[str, list[PartitionKey]]:
    return dict(zip(names or [str(node) for node in range(len(assignment))], assignment, strict=True))


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
