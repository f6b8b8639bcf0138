"""The options of reads, as one frozen value, checked as a whole before any connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from spark_source.options import parsers as to
from spark_source.options.access import AccessOptions, ConnectingOptions
from spark_source.options.node_options import NodeOptions
from spark_source.options.option import Masked, option, optional, options_of, secrets
from spark_source.options.row_options import MessageTimeOptions, RowOptions
from spark_source.options.subscription import StartAndEnd, Subscription
from tubeclient.assignment import NO_HINTS
from tubeclient.errors import ConfigurationError

__all__ = ["BatchOptions", "ProgressOptions", "SourceOptions"]


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """How many rows a batch has, and whether any may be missing."""

    max_offsets_per_trigger: int | None = optional(
        "maxOffsetsPerTrigger",
        to.integer(1),
        None,
        "no limit",
        "The most rows of one micro-batch, shared among the stores in proportion to their backlog. Partitions that lag "
        "behind others of their store are read beside them. Exact if there is that much to read, all partitions of a "
        "store have the same offset, and nothing is filtered; otherwise an upper bound.",
        only="stream",
    )
    min_offsets_per_trigger: int | None = optional(
        "minOffsetsPerTrigger",
        to.integer(1),
        None,
        "no wait",
        "Delay a micro-batch until there are so many rows, counted as for `maxOffsetsPerTrigger`, or "
        "`maxTriggerDelay` has passed. Ignored with `Trigger.AvailableNow`, which has a fixed end.",
        only="stream",
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay",
        to.duration_ms(0),
        "15m",
        "The longest delay of a micro-batch by `minOffsetsPerTrigger`.",
        only="stream",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        to.boolean,
        "true",
        "What to do if the brokers no longer hold messages that should be read: `true` ends the query with an error "
        "that names partition and range; `false` logs a warning with the number of lost messages and goes on.",
    )

    def check_limits(self) -> None:
        """Raise ConfigurationError if no batch could keep both limits."""
        fewest, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if fewest is not None and most is not None and fewest > most:
            raise ConfigurationError(
                f"minOffsetsPerTrigger {fewest} is more than maxOffsetsPerTrigger {most}, so no batch could have that "
                "many rows; swap or change them"
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
        "query writes it; `startingOffsets=group` reads it.",
    )
    offsets_table_mode: Literal["strict", "best_effort"] = option(
        "offsetsTableMode",
        to.choice("strict", "best_effort"),
        "best_effort",
        "How the query handles an offsets table that is slow or cannot be written. `best_effort`: the table is written "
        "in the background, errors are warnings, and the query goes on. `strict`: a batch is planned only after the "
        "previous batch's end is in the table, and errors end the query.",
        only="stream",
    )
    offset_commit_interval_ms: int = optional(
        "offsetCommitInterval",
        to.duration_ms(0),
        0,
        "every batch",
        "The minimum time between two commits to the offsets table, such as `10s`; a batch has at most one commit. The "
        "last position is always written when the query ends.",
        only="stream",
    )
    storage_options: Mapping[str, str] = secrets(
        "storageOption.*",
        to.text,
        "Access to the offsets table's storage, passed to delta-rs with the name after the dot. This package "
        "never shows the values. Spark shows options in plans, except those that `spark.redaction.regex` matches: set "
        "that as in conf/spark-defaults.conf, or put secrets into the driver's environment variables, which delta-rs "
        "reads too.",
    )
    commit_offsets_to_broker: bool = option(
        "commitOffsetsToBroker",
        to.boolean,
        "false",
        "Whether to set the group's position on the brokers to the end of each batch in the sink, for TubeMQ's "
        "consoles and other clients of the group. Needs the web ports of masters and brokers. A broker that fails is "
        "a warning.",
        only="stream",
    )


_log = logging.getLogger(__name__)


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
        return f"{spec.text} {self.message_time_zone}" if spec.by_time else spec.text

    def for_tasks(self) -> SourceOptions:
        """These options without what only the planner needs: tasks get no plan and no access to the offsets table.

        Tasks must authenticate to brokers, so a password in the options is included.
        """
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
        self.check_access()
        for name in ("storageOption.*", "offsetsTableMode", "offsetCommitInterval"):
            if name in self.given and self.offsets_table is None:
                raise ConfigurationError(f"{name} is given without offsetsTable and has no effect; add offsetsTable")

    def check_stream(self, *, read_limits: bool = True) -> None:
        """Raise ConfigurationError for options that do not apply to a streaming read, or need `read_limits` that Spark
        lacks."""
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if name in self.given and not read_limits:
                raise ConfigurationError(
                    f"{name} needs Spark 4.2 or newer, which supports limits in Python sources",
                    condition="NEEDS_NEWER_SPARK",
                )
        for one in options_of(SourceOptions).values():
            if one.only == "batch" and one.name in self.given:
                raise ConfigurationError(
                    f"{one.name} belongs to batch reads; a streaming read ends with .trigger(availableNow=True)"
                )
        self.check_limits()

    def check_batch(self) -> None:
        """Raise ConfigurationError for options that do not apply to a batch read; warn of those without effect."""
        self.check_ends()
        stream_only = {one.name for one in options_of(SourceOptions).values() if one.only == "stream"}
        idle = stream_only & self.given
        if idle:
            _log.warning("options without effect in a batch read: %s", ", ".join(sorted(idle)))
