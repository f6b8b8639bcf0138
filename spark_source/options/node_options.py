"""Who reads what: the group's nodes, what each is assigned, and the tasks that are made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_source.options import parsers as to
from spark_source.options.assignment_options import assignment_hints, assignment_strategy
from spark_source.options.option import option, optional
from tubeclient.assignment import NO_HINTS, Hints, check_strategy

__all__ = ["NodeOptions"]


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
    named_reader_groups: tuple[str, ...] | None = optional(
        "readerGroups",
        to.groups,
        None,
        "`GROUP-r0` to `GROUP-r7`",
        "The groups under which ranges are read and offsets asked for. A read moves a group's position on the "
        "broker, so it never happens under `consumerGroup`: name groups that nothing else reads as. A cluster that "
        "authorises groups must know these.",
    )
    partition_refresh_interval_ms: int = option(
        "partitionRefreshInterval",
        to.duration_ms(1_000),
        "30s",
        "How often to ask the master for new partitions, and with `subscribePattern` for new topics.",
        only="stream",
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
    def readers_per_partition(self) -> int:
        """How many nodes may read one partition at once."""
        return self.max_readers_per_partition if self.backlog_takeover else 1

    def check_assignment(self) -> None:
        """Raise ConfigurationError where the strategy cannot be had with these hints."""
        # What was before and what is to be read the planner knows.
        hints = replace(self.assignment_hints, previous={}, lag={})
        check_strategy(self.assignment_strategy, self.source_count or 1, hints)
