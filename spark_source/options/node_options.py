"""The group's nodes, their assignment, and the tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

from spark_source.offsets.json_object import json_object, put_once
from spark_source.options import parsers as to
from spark_source.options.option import option, optional
from tubeclient.assignment import NO_HINTS, STRATEGIES, Hints, check_strategy, strategy_named
from tubeclient.keys import MAX_NODES, PartitionKey, is_int32

__all__ = ["MOST_READERS", "NodeOptions", "Slicing", "assignment_hints", "assignment_strategy"]

_WRITE = 'write JSON of rooms, nodeRooms, plan and virtualNodes, as in {"rooms": {"1": "east", "2": "west"}}'

_Named = TypeVar("_Named")


def assignment_strategy(value: str) -> str:
    """A strategy's name in any case, or package.module:function of one that can be imported."""
    stripped = value.strip()
    if ":" in stripped:
        strategy_named(stripped)
        return stripped
    if stripped.lower() not in STRATEGIES:
        raise ValueError(f"is {value!r}; write one of {', '.join(STRATEGIES)}, or package.module:function of your own")
    return stripped.lower()


def assignment_hints(value: str) -> Hints:
    """JSON with data for strategies."""
    entries = json_object(value, "assignmentHints")
    if not entries:
        raise ValueError(f"is {value!r}; {_WRITE}")
    strange = sorted(entries.keys() - {"rooms", "nodeRooms", "plan", "virtualNodes"})
    if strange:
        raise ValueError(f"has the unknown entry {strange[0]!r}; {_WRITE}")
    virtual_nodes = entries.get("virtualNodes", Hints.virtual_nodes)
    if not _is_count(virtual_nodes) or not virtual_nodes:
        raise ValueError(f"has virtualNodes {virtual_nodes!r}; write a whole number from 1 on")
    return Hints(
        rooms=_mapping(entries, "rooms", _id, _is_room, 'from broker ids to rooms, as in {"1": "east"}'),
        node_rooms=_mapping(entries, "nodeRooms", _id, _is_room, 'from node ids to rooms, as in {"0": "east"}'),
        plan=_mapping(
            entries, "plan", PartitionKey.parse, _is_count, 'from partition keys to node ids, as in {"1:clicks:0": 0}'
        ),
        virtual_nodes=virtual_nodes,
    )


def _mapping(
    entries: dict[str, Any],
    name: str,
    parse: Callable[[str], _Named],
    is_value: Callable[[Any], bool],
    write: str,
) -> dict[_Named, Any] | None:
    if name not in entries:
        return None
    found = entries[name]
    if not isinstance(found, dict):
        raise ValueError(f"has {name} {found!r}; write an object {write}")
    for value in found.values():
        if not is_value(value):
            raise ValueError(f"has {value!r} in {name}; write an object {write}")
    parsed: dict[_Named, Any] = {}
    for key, value in found.items():
        put_once(parsed, {parse(key): value}, f"{name} in assignmentHints")
    return parsed


def _id(text: str) -> int:
    if not is_int32(text):
        raise ValueError(f"has the id {text!r}; write a whole number")
    return int(text)


def _is_room(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Slicing(NamedTuple):
    """How a node's ranges are cut into tasks."""

    min_tasks: int | None
    """Of all nodes together."""
    reader_groups: int
    """How many tasks can read one partition in parallel."""


MOST_READERS: Final = 2
"""Nodes of one partition, with `backlogTakeover`."""


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """The group's nodes, the assignment of partitions to them, and their tasks."""

    source_count: int | None = optional(
        "sourceCount",
        to.integer(1, MAX_NODES),
        None,
        "as many as partitions, at most the driver machine's cores",
        f"The number of nodes of the group, at most {MAX_NODES:,}; each node with something to read is one Spark task. "
        "On a cluster, set it to "
        "the number of cores that read.",
    )
    assignment_strategy: str = option(
        "assignmentStrategy",
        assignment_strategy,
        "modulo",
        "How partitions are assigned to nodes. `modulo`: sorted and assigned in turn, always even. `hash_modulo`: by a "
        "hash of the partition's key, for groups shared with Apache's example client. `averagely`, "
        "`averagely_by_circle`, `consistent_hash`, `machine_room`, `machine_room_nearby` and `config` as in RocketMQ's "
        "clients. `sticky`: even, and moves as few partitions as possible. `backlog`: by the rows of each batch. "
        "Or `package.module:function` of your own. See [who reads what](assignment.md).",
    )
    assignment_hints: Hints = optional(
        "assignmentHints",
        assignment_hints,
        NO_HINTS,
        "none",
        'JSON with data for the strategy: `{"rooms": {"1": "east"}}`, the room of each broker id; `nodeRooms`, '
        "the room of each node id; `plan`, the node id of each partition; and `virtualNodes`.",
    )
    backlog_takeover: bool = option(
        "backlogTakeover",
        to.boolean,
        "false",
        "Let nodes with little to read take over part of a partition's backlog from its node. May change between two "
        "starts of a query.",
    )
    backlog_takeover_min_rows: int = option(
        "backlogTakeoverMinRows",
        to.integer(1),
        "10000",
        "With `backlogTakeover`, partitions with more rows than this in a batch may be read by two nodes.",
        internal=True,
    )
    min_partitions: int | None = optional(
        "minPartitions",
        to.integer(1),
        None,
        "one task for each node with something to read",
        "Split the nodes' ranges into about this many tasks, in proportion to their rows. A hint: no "
        "partition is cut into more slices than there are `readerGroups`.",
    )
    group_join_timeout_ms: int = option(
        "groupJoinTimeout",
        to.duration_ms(0),
        "40s",
        "How long to wait for the group's nodes. A killed query holds them until the master's lease of 30 s ends.",
        only="stream",
        internal=True,
    )

    @property
    def takeover(self) -> int | None:
        """Partitions with more rows in a batch are shared by two nodes; None: none are."""
        return self.backlog_takeover_min_rows if self.backlog_takeover else None

    @property
    def readers_per_partition(self) -> int:
        """How many nodes may read one partition in parallel."""
        return MOST_READERS if self.backlog_takeover else 1

    def check_assignment(self) -> None:
        """Raise ConfigurationError if the strategy cannot work with these hints."""
        # The planner adds the former assignment and the rows to read.
        hints = replace(self.assignment_hints, previous={}, lag={})
        check_strategy(self.assignment_strategy, self.source_count or 1, hints)
