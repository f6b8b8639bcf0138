"""The group's nodes, their assignment, and the tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spark_source.offsets.offset_spec import json_object
from spark_source.options import parsers as to
from spark_source.options.option import option, optional
from tubeclient.assignment import NO_HINTS, STRATEGIES, Hints, check_strategy, strategy_named
from tubeclient.keys import MAX_NODES, PartitionKey, is_int32

__all__ = ["NodeOptions", "assignment_hints", "assignment_strategy"]

_HINTS: Final = (
    'JSON of rooms, nodeRooms, plan and virtualNodes, as in {"rooms": {"1": "east"}, "nodeRooms": {"0": "east"}, '
    '"plan": {"1:clicks:0": 0}, "virtualNodes": 10}'
)


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
    entries = json_object(value, "assignmentHints") or {}
    rooms, node_rooms, plan, virtual = (
        entries.pop(name, None) for name in ("rooms", "nodeRooms", "plan", "virtualNodes")
    )
    good = not entries and (rooms, node_rooms, plan, virtual) != (None,) * 4
    good = good and all(_values(some, str) for some in (rooms, node_rooms)) and _values(plan, int)
    if not good or (virtual is not None and (type(virtual) is not int or virtual < 1)):
        raise ValueError(f"is {value!r}; write {_HINTS}")
    return Hints(
        rooms=_by_id(rooms),
        node_rooms=_by_id(node_rooms),
        plan=None if plan is None else {PartitionKey.parse(key): node for key, node in plan.items()},
        virtual_nodes=Hints.virtual_nodes if virtual is None else virtual,
    )


def _values(found: object, kind: type) -> bool:
    return found is None or (isinstance(found, dict) and all(type(one) is kind and one != "" for one in found.values()))


def _by_id(rooms: dict[str, str] | None) -> dict[int, str] | None:
    for number in rooms or ():
        if not is_int32(number):
            raise ValueError(f"has the id {number!r}; write a whole number")
    return None if rooms is None else {int(number): room for number, room in rooms.items()}


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
        "With `backlogTakeover`, partitions with more rows than this in a batch may be read by several nodes.",
        internal=True,
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
        """Partitions with more rows in a batch may be shared by several nodes; None: none are."""
        return self.backlog_takeover_min_rows if self.backlog_takeover else None

    @property
    def readers_per_partition(self) -> int:
        """How many nodes there are for each partition where the user does not say."""
        return 2 if self.backlog_takeover else 1

    def check_assignment(self) -> None:
        """Raise ConfigurationError if the strategy cannot work with these hints."""
        # The planner adds the former assignment and the rows to read.
        hints = replace(self.assignment_hints, previous={}, lag={})
        check_strategy(self.assignment_strategy, self.source_count or 1, hints)
