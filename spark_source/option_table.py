"""Every option of reads and writes, one row each, which parses, documents and masks it; with those not built yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from spark_source import option_parsers as to
from spark_source.offset_spec import OffsetSpec
from spark_source.timestamps import parse_timestamp, parse_timestamps

__all__ = ["OPTIONS", "REQUIRED", "SPARKS_OWN", "OptionRow", "Reads", "find_row", "markdown"]

REQUIRED: Final = object()
"""The default of an option that has to be given."""

SPARKS_OWN: Final = ("checkpointLocation", "queryName")
"""What Spark hands to a sink along with the user's options."""

Reads = Literal["both", "stream", "batch", "none"]


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One option. Spark hands names over in lower case; users write them in any."""

    name: str
    """As documented. A trailing `*` stands for any rest: such options make one mapping from the rest to the value."""
    field: str
    """The field of SourceOptions, SinkOptions or both; "" where this version does not have the option."""
    parse: Callable[[str], Any] | None
    """From the user's text; raises ValueError with the rest of the sentence "<name> ..."."""
    default: Any
    """The field's value where the option is not given."""
    default_doc: str
    """The default as the documentation writes it."""
    doc: str
    reads: Reads = "both"
    """Which reads it applies to."""
    secret: bool = False
    """Its value may appear nowhere."""
    writes: bool = False
    """Whether it applies to writes, streaming and batch."""

    @property
    def available(self) -> bool:
        return self.parse is not None

    def applies_to(self, use: Literal["read", "write"]) -> bool:
        """Whether this version has the option for reads, or for writes."""
        return self.available and (self.writes if use == "write" else self.reads != "none")

    def matches(self, key: str) -> bool:
        """Whether `key`, in any case, is this option."""
        wanted = self.name.lower()
        if wanted.endswith("*"):
            return key.lower().startswith(wanted[:-1]) and len(key) >= len(wanted)
        return key.lower() == wanted


def _starting(text: str) -> OffsetSpec:
    return OffsetSpec.parse(text, "startingOffsets")


def _ending(text: str) -> OffsetSpec:
    return OffsetSpec.parse(text, "endingOffsets")


def _later(name: str, doc: str, reads: Reads = "both", secret: bool = False) -> OptionRow:
    """A row for an option that is planned; giving it is an error, so that nobody believes it works."""
    return OptionRow(name, "", None, None, "", doc, reads, secret)


OPTIONS: Final[tuple[OptionRow, ...]] = (
    OptionRow(
        "masterServers",
        "master_servers",
        to.servers,
        REQUIRED,
        "required",
        "The cluster's masters, active and standby: `host:port` separated by commas; without a port 8715, or "
        "8716 over TLS.",
        writes=True,
    ),
    OptionRow(
        "consumerGroup",
        "consumer_group",
        to.name,
        REQUIRED,
        "required",
        "The group to read as. A streaming query holds its nodes at the master, so a second query of the group is "
        "refused; a batch read registers nothing under it.",
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
        to.choice("modulo", "hash_modulo"),
        "modulo",
        "`modulo`",
        "How partitions are dealt to nodes. `modulo`: sorted and dealt in turn, always even. `hash_modulo`: by a "
        "hash of the partition's key, for groups shared with Apache's example client.",
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
        "there. Partitions that appear later are read from their beginning. A batch read may not start at `latest`.",
    ),
    OptionRow(
        "groupFallback",
        "group_fallback",
        to.choice("earliest", "latest", "error"),
        "error",
        "`error`",
        "Where `group` begins in a topic in which the group has no position yet.",
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
        "The most rows of one micro-batch, dealt to the stores in proportion to what is behind in each. Exact "
        "while there is that much to read, the partitions of each store stand at the same offset, and nothing is "
        "filtered; an upper bound else.",
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
    _later("offsetsTableMode", "What a failing offsets table means for the query.", "stream"),
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
    _later(
        "commitOffsetsToBroker", "Set the group's position on the brokers after each batch, for lag tools.", "stream"
    ),
    OptionRow(
        "readerGroups",
        "reader_groups",
        to.names,
        None,
        "`GROUP-r0` to `GROUP-r7`",
        "The groups under which ranges are read and offsets asked for. A read moves a group's position on the "
        "broker, so it never happens under `consumerGroup`. A cluster that authorises groups must know these.",
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
        "masterWebPort",
        "master_web_port",
        to.integer(1, 65535),
        8080,
        "`8080`",
        "The masters' HTTP port; the brokers' ones are found there. Where they cannot be reached, offsets are "
        "asked for over TubeMQ's own protocol. Writes do without.",
        writes=True,
    ),
    OptionRow(
        "rpcTimeout",
        "rpc_timeout_ms",
        to.duration_ms(100),
        8_000,
        "`8s`",
        "How long one call to a broker may take, or to all masters in turn.",
        writes=True,
    ),
    OptionRow(
        "retryLimit",
        "retry_limit_ms",
        to.duration_ms(1_000),
        60_000,
        "`60s`",
        "How long reading goes on trying without any progress before it fails; for writes, how long one message is "
        "tried.",
        writes=True,
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
    OptionRow(
        "authUser",
        "auth_user",
        to.user,
        None,
        "none",
        "The user, where masters and brokers ask for one. One of the three options that follow gives the password.",
        writes=True,
    ),
    OptionRow(
        "authPassword",
        "auth_password",
        to.password,
        None,
        "none",
        "The user's password. Brokers want the signature of each task, so this text is sent to every task; the two "
        "options that follow send only where it stands.",
        secret=True,
        writes=True,
    ),
    OptionRow(
        "authPasswordFile",
        "auth_password_file",
        to.text,
        None,
        "none",
        "A file that holds the password, at this path on the driver's machine and on every executor's. It is read "
        "whenever a request is signed.",
        writes=True,
    ),
    OptionRow(
        "authPasswordEnv",
        "auth_password_env",
        to.text,
        None,
        "none",
        "An environment variable that holds the password, of the driver and of the executors "
        "(`spark.executorEnv.NAME`).",
        writes=True,
    ),
    OptionRow(
        "tls.enabled",
        "tls_enabled",
        to.boolean,
        None,
        "`true` where another `tls.` option is given, else `false`",
        "Whether connections to masters and brokers are encrypted. TubeMQ has ports of its own for it: a master "
        "without a port is then at 8716. The web ports know no TLS.",
        writes=True,
    ),
    OptionRow(
        "tls.caFile",
        "tls_ca_file",
        to.text,
        None,
        "whom the machine trusts",
        "Certificates of those who sign the servers' ones. This and all files below: PEM, at the same path on the "
        "driver's machine and on every executor's.",
        writes=True,
    ),
    OptionRow(
        "tls.certificateFile",
        "tls_certificate_file",
        to.text,
        None,
        "none",
        "The client's own certificate, with the chain to its signer, where servers ask for one (two-way TLS).",
        writes=True,
    ),
    OptionRow(
        "tls.keyFile",
        "tls_key_file",
        to.text,
        None,
        "`tls.certificateFile`",
        "The private key of that certificate.",
        writes=True,
    ),
    OptionRow(
        "tls.keyPassword",
        "tls_key_password",
        to.password,
        None,
        "none",
        "What the key is encrypted with, if it is. Like `authPassword`, this text is sent to every task.",
        secret=True,
        writes=True,
    ),
    OptionRow(
        "tls.keyPasswordFile",
        "tls_key_password_file",
        to.text,
        None,
        "none",
        "A file that holds the key's password.",
        writes=True,
    ),
    OptionRow(
        "tls.keyPasswordEnv",
        "tls_key_password_env",
        to.text,
        None,
        "none",
        "An environment variable that holds the key's password.",
        writes=True,
    ),
    OptionRow(
        "tls.checkHostname",
        "tls_check_hostname",
        to.boolean,
        True,
        "`true`",
        "Whether a server's certificate has to be for the host it was reached at. Brokers are reached at the address "
        "that the master lists: either their certificates name it, or this is to be false.",
        writes=True,
    ),
    OptionRow(
        "topic",
        "topic",
        to.topic,
        None,
        "the column `topic`",
        "The topic that a write goes to. It overrides the column `topic`; one of both is required.",
        "none",
        writes=True,
    ),
)
"""In the order of the documentation."""


def find_row(key: str) -> OptionRow | None:
    """The row of an option by its name in any case; None for an unknown one."""
    return next((row for row in OPTIONS if row.matches(key)), None)


def markdown() -> str:
    """The options that this version has as a Markdown table, and the names of the others."""
    lines = ["| option | default | applies to | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.name}` | {row.default_doc} | {_uses(row)} | {row.doc} |" for row in OPTIONS if row.available]
    later = ", ".join(f"`{row.name}`" for row in OPTIONS if not row.available)
    return "\n".join([*lines, "", f"Not available in this version, and refused: {later}.", ""])


def _uses(row: OptionRow) -> str:
    reads = {"both": ["reads"], "stream": ["streaming reads"], "batch": ["batch reads"], "none": []}[row.reads]
    return ", ".join([*reads, *(["writes"] if row.writes else [])])
