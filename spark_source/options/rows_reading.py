"""The options of what is read: which topics and partitions, as which group, from where to where, how much at once."""

from __future__ import annotations

from typing import Final

from spark_source.offsets.offset_spec import OffsetSpec
from spark_source.offsets.timestamps import parse_timestamp, parse_timestamps
from spark_source.options import parsers as to
from spark_source.options.assignment_options import assignment_hints, assignment_strategy
from spark_source.options.row import REQUIRED, OptionRow
from tubeclient.assignment import NO_HINTS

__all__ = ["READING"]


def _starting(text: str) -> OffsetSpec:
    return OffsetSpec.parse(text, "startingOffsets")


def _ending(text: str) -> OffsetSpec:
    return OffsetSpec.parse(text, "endingOffsets")


READING: Final[tuple[OptionRow, ...]] = (
    OptionRow(
        "consumerGroup",
        "consumer_group",
        to.own_group,
        REQUIRED,
        "required",
        "The group to read as. A streaming query holds its nodes at the master, so a second query of the group is "
        "refused; a batch read registers nothing under it. Its name must not end in `-r` and a number, as those of "
        "reader groups do.",
    ),
    OptionRow(
        "subscribe",
        "subscribe",
        to.topics,
        (),
        "",
        "Topics, separated by commas. Exactly one of this, `subscribePattern` and `assign`.",
    ),
    OptionRow(
        "subscribePattern",
        "subscribe_pattern",
        to.pattern,
        None,
        "",
        "All topics whose whole name matches this Python regular expression. They are listed by the master's web port "
        "(`masterWebPort`) each `partitionRefreshInterval`; topics that appear while a query runs are read from their "
        "beginning.",
    ),
    OptionRow(
        "assign",
        "assigned",
        to.partition_keys,
        (),
        "",
        'Only these partitions: a JSON list of keys `brokerId:topic:partitionId`, as in `["1:clicks:0"]`.',
    ),
    OptionRow(
        "filters",
        "filters",
        to.filters,
        {},
        "none",
        'JSON from topics to tags, as in `{"clicks": ["web", "app"]}`: only messages with one of the tags are '
        "read. Offsets move past the others too, so row limits become upper bounds.",
    ),
    OptionRow(
        "sourceCount",
        "source_count",
        to.integer(1),
        None,
        "as many as partitions, at most the driver machine's cores",
        "How many nodes the group has; each node with something to read is one Spark task. On a cluster, set it to "
        "the number of cores that shall read.",
    ),
    OptionRow(
        "assignmentStrategy",
        "assignment_strategy",
        assignment_strategy,
        "modulo",
        "`modulo`",
        "How partitions are assigned to nodes. `modulo`: sorted and assigned in turn, always even. `hash_modulo`: by a "
        "hash of the partition's key, for groups shared with Apache's example client. `averagely`, "
        "`averagely_by_circle`, `consistent_hash`, `machine_room`, `machine_room_nearby` and `config` as RocketMQ's "
        "clients do. `sticky`: even, and moves as few partitions as can be. `backlog`: by what each batch has to read. "
        "Or `package.module:function` of your own. See [who reads what](assignment.md).",
    ),
    OptionRow(
        "assignmentHints",
        "assignment_hints",
        assignment_hints,
        NO_HINTS,
        "none",
        'JSON of what the strategy needs to know: `{"rooms": {"1": "east"}}`, the room of each broker id, `nodeRooms`, '
        "that of each node id, `plan`, the node id of each partition, and `virtualNodes`.",
    ),
    OptionRow(
        "startingOffsets",
        "starting",
        _starting,
        None,
        "`latest`; for a batch read `earliest`",
        "Where a new query begins: `earliest`, `latest`, `group` (the offsets table first, then the group's "
        'position on the brokers, then `groupFallback`), or JSON from partition keys to offsets with a `"default"` '
        "entry for all others; -2 stands for earliest, -1 for latest. A query with a checkpoint goes on from "
        "there. Partitions that appear later are read from their beginning; so are those that JSON does not name in a "
        "topic in which it names offsets, where the default is `latest`. A batch read may not start at `latest`.",
    ),
    OptionRow(
        "groupFallback",
        "group_fallback",
        to.choice("earliest", "latest", "error"),
        "error",
        "`error`",
        "Where `group` begins in a topic in which the group has no position yet: `earliest`, `latest`, or "
        "`error`, which ends the query and names the partitions.",
    ),
    OptionRow(
        "endingOffsets",
        "ending",
        _ending,
        OffsetSpec("endingOffsets", "latest"),
        "`latest`",
        "Where a batch read ends: `latest`, or JSON as for `startingOffsets` (-1 for latest; -2 is not allowed).",
        "batch",
    ),
    OptionRow(
        "startingTimestamp",
        "starting_timestamp",
        lambda text: parse_timestamp(text, "startingTimestamp"),
        None,
        "",
        "Begin each partition at its first message of this minute or later, by the time that producers write on "
        "messages: milliseconds since 1970. Goes before `startingOffsetsByTimestamp`, and that before "
        "`startingOffsets`.",
    ),
    OptionRow(
        "startingOffsetsByTimestamp",
        "starting_by_timestamp",
        lambda text: parse_timestamps(text, "startingOffsetsByTimestamp"),
        None,
        "",
        'The same for single partitions: JSON from partition keys to milliseconds since 1970, with a `"default"` '
        "entry for all others.",
    ),
    OptionRow(
        "startingOffsetsByTimestampStrategy",
        "unmatched",
        to.choice("error", "latest"),
        "error",
        "`error`",
        "Where a partition begins that has no message of the starting minute or later: `error` ends the query, "
        "`latest` begins with what comes next.",
    ),
    OptionRow(
        "endingTimestamp",
        "ending_timestamp",
        lambda text: parse_timestamp(text, "endingTimestamp"),
        None,
        "",
        "End each partition before its first message of this minute or later, at the latest offset where there is "
        "none. Goes before `endingOffsetsByTimestamp`, and that before `endingOffsets`.",
        "batch",
    ),
    OptionRow(
        "endingOffsetsByTimestamp",
        "ending_by_timestamp",
        lambda text: parse_timestamps(text, "endingOffsetsByTimestamp"),
        None,
        "",
        "The same for single partitions, written as `startingOffsetsByTimestamp`.",
        "batch",
    ),
    OptionRow(
        "maxOffsetsPerTrigger",
        "max_offsets_per_trigger",
        to.integer(1),
        None,
        "no limit",
        "The most rows of one micro-batch, shared among the stores in proportion to what is behind in each; partitions "
        "that lag behind others of their store are read beside them. Exact while there is that much to read, the "
        "partitions of each store stand at the same offset, and nothing is filtered; an upper bound else.",
        "stream",
    ),
    OptionRow(
        "minOffsetsPerTrigger",
        "min_offsets_per_trigger",
        to.integer(1),
        None,
        "no wait",
        "Make no micro-batch before there are so many rows, counted as for `maxOffsetsPerTrigger`, or "
        "`maxTriggerDelay` has passed. Not for `Trigger.AvailableNow`, where nothing is added by waiting.",
        "stream",
    ),
    OptionRow(
        "maxTriggerDelay",
        "max_trigger_delay_ms",
        to.duration_ms(0),
        900_000,
        "`15m`",
        "How long at most `minOffsetsPerTrigger` holds a micro-batch back.",
        "stream",
    ),
    OptionRow(
        "minPartitions",
        "min_partitions",
        to.integer(1),
        None,
        "one task for each node with something to read",
        "Split what the nodes read into about this many tasks, in proportion to the rows of each. A hint: no "
        "partition is cut into more slices than there are `readerGroups`.",
    ),
    OptionRow(
        "maxRecordsPerPartition",
        "max_records_per_partition",
        to.integer(1),
        None,
        "no limit",
        "Split what a node reads so that no task has more rows. With `minPartitions` too, the larger number of tasks "
        "is made.",
    ),
    OptionRow(
        "backlogTakeover",
        "backlog_takeover",
        to.boolean,
        False,
        "`false`",
        "Let nodes with little to read take part of a partition's backlog from the node that has the partition. Can be "
        "switched on and off from one start of a query to the next.",
    ),
    OptionRow(
        "backlogTakeoverMinRows",
        "backlog_takeover_min_rows",
        to.integer(1),
        10_000,
        "`10000`",
        "With `backlogTakeover`, partitions with more rows than this in a batch may be read by several nodes.",
    ),
    OptionRow(
        "maxReadersPerPartition",
        "max_readers_per_partition",
        to.integer(2),
        2,
        "`2`",
        "With `backlogTakeover`, by how many nodes at once; as many as there are `readerGroups` at most.",
    ),
    OptionRow(
        "failOnDataLoss",
        "fail_on_data_loss",
        to.boolean,
        True,
        "`true`",
        "What to do where the brokers no longer hold what is to be read: end with an error that names partition "
        "and range, or (`false`) write a warning that counts what is lost and go on.",
    ),
    OptionRow(
        "includeAttributes",
        "include_attributes",
        to.boolean,
        False,
        "`false`",
        "Add the column `attributes map<string,string>`: what the producer attached besides tag and time.",
    ),
    OptionRow(
        "messageTimeZone",
        "message_time_zone",
        to.zone,
        "UTC",
        "`UTC`",
        "The zone of the producers' clocks. Messages carry their time as text without a zone; Java producers write "
        "it in the default zone of their machine, in China as a rule `Asia/Shanghai`. A "
        "write puts the column `messageTime` down in this zone.",
        writes=True,
    ),
    OptionRow(
        "offsetsTable",
        "offsets_table",
        to.location,
        None,
        "none",
        "Path or URI of a Delta table that keeps the group's position: what was read for certain. A streaming "
        "query writes it; `startingOffsets=group` reads it.",
    ),
    OptionRow(
        "offsetsTableMode",
        "offsets_table_mode",
        to.choice("strict", "best_effort"),
        "best_effort",
        "`best_effort`",
        "What an offsets table means to the query that cannot be written while it runs, or is slow. `best_effort`: the "
        "table is written in the background, trouble is a warning, and the query goes on. `strict`: a batch is planned "
        "when the one before it is in the table, and trouble ends the query.",
        "stream",
    ),
    OptionRow(
        "offsetCommitInterval",
        "offset_commit_interval_ms",
        to.duration_ms(0),
        0,
        "every batch",
        "The least time between two commits to the offsets table, as in `10s`; there is never more than one for a "
        "batch. When the query ends, the last position is written all the same.",
        "stream",
    ),
    OptionRow(
        "storageOption.*",
        "storage_options",
        to.text,
        {},
        "",
        "Access to the offsets table's storage, handed to delta-rs under the name behind the dot. This package "
        "never shows the values. Spark shows options in plans, except those that `spark.redaction.regex` matches: set "
        "that as conf/spark-defaults.conf does, or leave secrets to the driver's environment variables, which delta-rs "
        "reads too.",
        secret=True,
    ),
    OptionRow(
        "commitOffsetsToBroker",
        "commit_offsets_to_broker",
        to.boolean,
        False,
        "`false`",
        "Whether to set the group's position on the brokers to the end of each batch that is in the sink, for TubeMQ's "
        "consoles and other clients of the group. Needs the web ports of masters and brokers. Brokers that cannot be "
        "told are a warning.",
        "stream",
    ),
    OptionRow(
        "readerGroups",
        "reader_groups",
        to.groups,
        None,
        "`GROUP-r0` to `GROUP-r7`",
        "The groups under which ranges are read and offsets asked for. A read moves a group's position on the "
        "broker, so it never happens under `consumerGroup`: name groups that nothing else reads as. A cluster that "
        "authorises groups must know these.",
    ),
    OptionRow(
        "partitionRefreshInterval",
        "partition_refresh_interval_ms",
        to.duration_ms(1_000),
        30_000,
        "`30s`",
        "How often to ask the master for new partitions, and with `subscribePattern` for new topics.",
        "stream",
    ),
    OptionRow(
        "groupJoinTimeout",
        "group_join_timeout_ms",
        to.duration_ms(0),
        40_000,
        "`40s`",
        "How long to wait for the group's nodes. A query that was killed holds them until the master's lease of 30 "
        "s ends.",
        "stream",
    ),
)
