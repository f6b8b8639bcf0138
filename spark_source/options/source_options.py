"""The options of reads and of writes, each as one frozen value, checked as a whole before any connection."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from spark_source.offsets.offset_spec import json_object
from spark_source.options import parsers as to
from spark_source.options.access import AccessOptions, ConnectingOptions
from spark_source.options.option import Masked, option, optional, options_of
from spark_source.options.subscription import StartAndEnd, Subscription
from tubeclient.assignment import NO_HINTS, STRATEGIES, Hints, check_strategy, strategy_named
from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_NODES, PartitionKey, is_int32
from tubeclient.names import stored_group_name

__all__ = ["ALL_ATTRIBUTES", "ATTRIBUTES", "RowOptions", "SinkOptions", "SourceOptions"]

_log = logging.getLogger(__name__)

ATTRIBUTES: Final = ("*", "attributes")
"""The option `columns` for all columns of messages."""
ALL_ATTRIBUTES: Final = (*ATTRIBUTES, "recordAttributes")
"""For all columns of records."""


@dataclass(frozen=True, kw_only=True)
class MessageTimeOptions:
    """The time zone of messages, in reads and in writes."""

    message_time_zone: str = option(
        "messageTimeZone",
        to.zone,
        "UTC",
        "The time zone of the producers' clocks. Messages carry their time as text without a time zone; Java producers "
        "use the default of their machine, in China usually `Asia/Shanghai`. A write converts the column `messageTime` "
        "to this time zone.",
    )


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """What rows are made of messages."""

    payload: Literal["raw", "inlong", "auto"] = option(
        "payload",
        to.choice("raw", "inlong", "auto"),
        "raw",
        "What messages contain. `raw`: each message is a row. `inlong`: packs of records as InLong's DataProxy "
        "writes them; each record is a row, with the columns `inlongGroupId`, `inlongStreamId`, `dataTime` and "
        "`recordIndex`. `auto`: packs are recognized by DataProxy's attributes or their magic bytes, and all other "
        "messages are raw. Limits and lag always count messages.",
    )
    bad_messages: Literal["fail", "keep"] = option(
        "badMessages",
        to.choice("fail", "keep"),
        "fail",
        "What to do with a message that has a wrong checksum or cannot be parsed. `fail`: end with an error that "
        "says where the message is. `keep`: return a row with its bytes in `value` and the reason in the column "
        "`badReason`, which is null in all other rows.",
    )
    columns: tuple[str, ...] = optional(
        "columns",
        to.columns,
        (),
        "all but `attributes` and `recordAttributes`",
        "The only columns that rows have, such as `value` or `value, messageTime`, in the order of the table of "
        "columns; `*` stands for the default, as in `*, attributes`. Spark does not tell a Python source which "
        "columns a query uses, so each column costs executor time unless you leave it out here.",
    )

    @property
    def include_attributes(self) -> bool:
        """Whether any column has attributes."""
        return any(name.lower() in ("attributes", "recordattributes") for name in self.columns)


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
    kinds = {"rooms": str, "nodeRooms": str, "plan": int}
    good = bool(entries) and entries.keys() <= {*kinds, "virtualNodes"}
    for name, kind in kinds.items():
        some = entries.get(name, {})
        good = good and isinstance(some, dict) and all(type(hint) is kind and hint != "" for hint in some.values())
    virtual = entries.get("virtualNodes", Hints.virtual_nodes)
    if not good or type(virtual) is not int or virtual < 1:
        raise ValueError(f"is {value!r}; write {_HINTS}")
    plan = entries.get("plan")
    return Hints(
        rooms=_by_id(entries.get("rooms")),
        node_rooms=_by_id(entries.get("nodeRooms")),
        plan=None if plan is None else {PartitionKey.parse(key): node for key, node in plan.items()},
        virtual_nodes=virtual,
    )


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
        "Let nodes with little to read take over part of a partition's backlog from its node. You can change this "
        "between two starts of a query.",
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


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """How many rows a batch has, and whether any may be missing."""

    max_offsets_per_trigger: int | None = optional(
        "maxOffsetsPerTrigger",
        to.integer(1),
        None,
        "no limit",
        "The maximum number of rows in one micro-batch, shared among the stores in proportion to their backlog. "
        "Partitions that lag behind others in their store are read in parallel with them. Exact if there is that "
        "much to read, all partitions of a store have the same offset, and nothing is filtered; otherwise an upper "
        "bound.",
        only="stream",
    )
    min_offsets_per_trigger: int | None = optional(
        "minOffsetsPerTrigger",
        to.integer(1),
        None,
        "no wait",
        "Delay a micro-batch until there are this many rows, counted as for `maxOffsetsPerTrigger`, or until "
        "`maxTriggerDelay` has passed. Ignored with `Trigger.AvailableNow`, which has a fixed end.",
        only="stream",
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay",
        to.duration_ms(0),
        "15m",
        "The longest time that `minOffsetsPerTrigger` delays a micro-batch.",
        only="stream",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        to.boolean,
        "true",
        "What to do if the brokers no longer hold messages that should be read. `true`: end the query with an error "
        "that names the partition and range. `false`: log a warning with the number of lost messages, and continue.",
    )


@dataclass(frozen=True, kw_only=True)
class ProgressOptions:
    """The offsets table and its writes, and the positions on the brokers."""

    offsets_table: str | None = optional(
        "offsetsTable",
        to.location,
        None,
        "none",
        "Path or URI of a Delta table that keeps the group's position: what is in the sink for certain. A streaming "
        "query writes it in the background, and continues if a write fails; `startingOffsets=group` reads it.",
    )
    storage_options: Mapping[str, str] = optional(
        "storageOption.*",
        to.text,
        Masked({}),
        "",
        "Access to the offsets table's storage; the part of the name after the dot is passed to delta-rs. This "
        "package never shows the values. Spark shows options in plans, except those that match "
        "`spark.redaction.regex`: set that as in conf/spark-defaults.conf, or put secrets into the driver's "
        "environment variables, which delta-rs reads too.",
        secret=True,
    )
    commit_offsets_to_broker: bool = option(
        "commitOffsetsToBroker",
        to.boolean,
        "false",
        "Whether to set the group's position on the brokers to the end of each batch in the sink, for TubeMQ's "
        "consoles and other clients of the group. Needs the web ports of masters and brokers. If a broker fails, the "
        "query logs a warning.",
        only="stream",
    )
    read_positions: bool = option(
        "readPositions",
        to.boolean,
        "false",
        "Return a row for each partition instead of messages: what its broker has, where the group is, and how many "
        "messages it is behind. See [positions as a table](spark-source.md#positions-as-a-table).",
        only="batch",
    )


# The fields of the last base come first, so the documentation page has these groups from the bottom up.
@dataclass(frozen=True, kw_only=True)
class SourceOptions(
    AccessOptions,
    ProgressOptions,
    NodeOptions,
    MessageTimeOptions,
    BatchOptions,
    RowOptions,
    StartAndEnd,
    Subscription,
    ConnectingOptions,
):
    """The options of a read, streaming or batch. Functions that need one group of options take that group."""

    @property
    def starting_question(self) -> str:
        """Identifies where a streaming read begins, and what decides the offsets of that."""
        spec = self.start_of("stream")
        zone = [self.message_time_zone] if spec.by_time else []
        keys = [json.dumps([str(key) for key in self.assigned])] if self.assigned else []
        return " ".join([spec.text, *zone, *keys])

    def for_tasks(self) -> SourceOptions:
        """These options without what only the planner needs: tasks get no plan and no access to the offsets table. They
        must authenticate to brokers, so a password in the options is included."""
        return replace(self, assigned=(), offsets_table=None, storage_options=Masked({}), assignment_hints=NO_HINTS)

    def check(self) -> None:
        """Raise ConfigurationError for options that contradict each other."""
        if sum(name in self.given for name in ("subscribe", "subscribePattern", "assign")) != 1:
            raise ConfigurationError(
                "give exactly one of subscribe (topics by name), subscribePattern (topics by a regular expression) and "
                "assign (partitions)"
            )
        self.check_filters()
        self.check_assignment()
        super().check()
        if self.offsets_table is not None:
            stored_group_name(self.consumer_group)
        if self.storage_options and self.offsets_table is None:
            raise ConfigurationError(
                "storageOption.* is given without offsetsTable and has no effect; add offsetsTable"
            )

    def check_stream(self, *, read_limits: bool = True) -> None:
        """Raise ConfigurationError for options that do not apply to a streaming read, or need `read_limits` that Spark
        lacks."""
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if name in self.given and not read_limits:
                raise ConfigurationError(
                    f"{name} needs Spark 4.2 or newer, which supports limits in Python sources",
                    condition="NEEDS_NEWER_SPARK",
                )
        for known in options_of(SourceOptions).values():
            if known.only == "batch" and known.name in self.given:
                instead = "a streaming read ends with .trigger(availableNow=True)"
                if known.name == "readPositions":
                    instead = "read positions with spark.read, and messages without this option"
                raise ConfigurationError(f"{known.name} is for batch reads only; {instead}")
        fewest, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if fewest is not None and most is not None and fewest > most:
            raise ConfigurationError(
                f"minOffsetsPerTrigger {fewest} is more than maxOffsetsPerTrigger {most}, so no batch could have that "
                "many rows; swap or change them"
            )

    def check_batch(self) -> None:
        """Raise ConfigurationError for options that do not apply to a batch read; warn of those without effect."""
        options = options_of(SourceOptions).values()
        if self.read_positions:
            idle, kind = self.given - _OF_POSITIONS, "read of positions"
            for name in sorted(idle & {known.name for known in options if known.only == "batch"}):
                raise ConfigurationError(
                    f"{name} has no effect on positions, which are always the current ones; leave it out"
                )
        else:
            self.check_ends()
            idle, kind = self.given & {known.name for known in options if known.only == "stream"}, "batch read"
        if idle:
            _log.warning("options that have no effect in a %s: %s", kind, ", ".join(sorted(idle)))


_OF_POSITIONS: Final = {
    *(known.name for kind in (AccessOptions, Subscription) for known in options_of(kind).values()),
    *("offsetsTable", "storageOption.*", "readPositions"),
}
"""What decides the rows of `readPositions`. Others have no effect, and are no error: a stream's options stay as they
are."""


@dataclass(frozen=True, kw_only=True)
class SinkOptions(AccessOptions, MessageTimeOptions):
    """The options of a write, streaming or batch."""

    topic: str | None = optional(
        "topic",
        to.topic,
        None,
        "the column `topic`",
        "The topic to write to. Overrides the column `topic`; one of the two is required.",
    )
