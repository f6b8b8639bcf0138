"""Who reads what: the group's nodes, what each is assigned, and the tasks that are made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from spark_source.options import parsers as to
from spark_source.options.assignment_options import assignment_hints, assignment_strategy
from spark_source.options.option import option, optional
from tubeclient.assignment import NO_HINTS, Hints, check_strategy

__all__ = ["NodeOptions", "Slicing", "Takeover"]


class Slicing(NamedTuple):
    """How what a node reads is cut into tasks."""

    min_tasks: int | None
    """Of all nodes together."""
    max_rows: int | None
    """Of one task."""
    reader_groups: int
    """How many can read one partition at once."""


class Takeover(NamedTuple):
    """How a partition's backlog is shared among nodes."""

    min_rows: int
    """Partitions with more rows are shared."""
    max_readers: int
    """Of one partition."""


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """The group's nodes, and how partitions become theirs and their tasks'."""

    source_count: int | None = optional(
        "sourceCount",
        to.integer(1),
        None,
        "as many as partitions, at most the driver machine's cores",
        "How many nodes the group has; each node with something to read is one Spark task. On a cluster, set it to "
        "the number of cores that shall read.",
    )
    assignment_strategy: str = option(
        "assignmentStrategy",
        assignment_strategy,
        "modulo",
        "How partitions are assigned to nodes. `modulo`: sorted and assigned in turn, always even. `hash_modulo`: by a "
        "hash of the partition's key, for groups shared with Apache's example client. `averagely`, "
        "`averagely_by_circle`, `consistent_hash`, `machine_room`, `machine_room_nearby` and `config` as RocketMQ's "
        "clients do. `sticky`: even, and moves as few partitions as can be. `backlog`: by what each batch has to read. "
        "Or `package.module:function` of your own. See [who reads what](assignment.md).",
    )
    assignment_hints: Hints = optional(
        "assignmentHints",
        assignment_hints,
        NO_HINTS,
        "none",
        'JSON of what the strategy needs to know: `{"rooms": {"1": "east"}}`, the room of each broker id, `nodeRooms`, '
        "that of each node id, `plan`, the node id of each partition, and `virtualNodes`.",
    )
    backlog_takeover: bool = option(
        "backlogTakeover",
        to.boolean,
        "false",
        "Let nodes with little to read take part of a partition's backlog from the node that has the partition. Can be "
        "switched on and off from one start of a query to the next.",
    )
    backlog_takeover_min_rows: int = option(
        "backlogTakeoverMinRows",
        to.integer(1),
        "10000",
        "With `backlogTakeover`, partitions with more rows than this in a batch may be read by several nodes.",
    )
    max_readers_per_partition: int = option(
        "maxReadersPerPartition",
        to.integer(2),
        "2",
        "With `backlogTakeover`, by how many nodes at once; as many as there are `readerGroups` at most.",
    )
    min_partitions: int | None = optional(
        "minPartitions",
        to.integer(1),
        None,
        "one task for each node with something to read",
        "Split what the nodes read into about this many tasks, in proportion to the rows of each. A hint: no "
        "partition is cut into more slices than there are `readerGroups`.",
    )
    max_records_per_partition: int | None = optional(
        "maxRecordsPerPartition",
        to.integer(1),
        None,
        "no limit",
        "Split what a node reads so that no task has more rows. With `minPartitions` too, the larger number of tasks "
        "is made.",
    )
    group_join_timeout_ms: int = option(
        "groupJoinTimeout",
        to.duration_ms(0),
        "40s",
        "How long to wait for the group's nodes. A query that was killed holds them until the master's lease of 30 "
        "s ends.",
        only="stream",
    )

    @property
    def takeover(self) -> Takeover | None:
        """How backlog is taken over; None where it is not."""
        if not self.backlog_takeover:
            return None
        return Takeover(self.backlog_takeover_min_rows, self.max_readers_per_partition)

    @property
    def readers_per_partition(self) -> int:
        """How many nodes may read one partition at once."""
        return self.max_readers_per_partition if self.backlog_takeover else 1

    def check_assignment(self) -> None:
        """Raise ConfigurationError where the strategy cannot be had with these hints."""
        # What was before and what is to be read the planner knows.
        hints = replace(self.assignment_hints, previous={}, lag={})
        check_strategy(self.assignment_strategy, self.source_count or 1, hints)
