"""The options of reads, as one frozen value, checked as a whole before any connection."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from spark_source.options.access import AccessOptions, ConnectingOptions, check_access
from spark_source.options.batch_options import BatchOptions, MessageTimeOptions
from spark_source.options.node_options import MOST_READERS, NodeOptions, Slicing
from spark_source.options.option import Masked, options_of
from spark_source.options.progress_options import ProgressOptions
from spark_source.options.row_options import RowOptions
from spark_source.options.start_and_end import PlaceRules, StartAndEnd
from spark_source.options.subscription import Subscription
from tubeclient.assignment import NO_HINTS
from tubeclient.errors import ConfigurationError

__all__ = ["SourceOptions"]

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
    def place_rules(self) -> PlaceRules:
        """The options that decide which offsets places stand for."""
        return PlaceRules(
            self.consumer_group,
            self.message_time_zone,
            self.unmatched,
            self.group_fallback,
            self.fail_on_data_loss,
        )

    @property
    def slicing(self) -> Slicing:
        """How a node's ranges are cut into tasks."""
        return Slicing(self.min_partitions, len(self.reader_groups))

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
        if self.streams and self.payload == "raw":
            raise ConfigurationError("streams picks InLong streams, and payload is raw; set payload to inlong or auto")
        if self.streams and self.filters:
            raise ConfigurationError("streams and filters both pick messages by tag; give one of them")
        self.check_assignment()
        check_access(self)
        for name in ("storageOption.*", "offsetsTableMode", "offsetCommitInterval"):
            if name in self.given and self.offsets_table is None:
                raise ConfigurationError(f"{name} is given without offsetsTable and has no effect; add offsetsTable")
        if self.readers_per_partition > len(self.reader_groups):
            raise ConfigurationError(
                f"with backlogTakeover {MOST_READERS} nodes may read a partition, each with a group of its own, and "
                f"there is only {self.reader_groups[0]} in readerGroups; name more of them"
            )
        if self.consumer_group in self.reader_groups:
            raise ConfigurationError(
                f"readerGroups names consumerGroup {self.consumer_group}; reading moves a reader group's position on "
                "the broker, so name another group"
            )

    def check_stream(self, *, read_limits: bool = True) -> None:
        """Raise ConfigurationError for options that do not apply to a streaming read, or need `read_limits` that Spark
        lacks."""
        if self.read == "positions":
            raise ConfigurationError("read positions belongs to batch reads; a streaming read gives messages")
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if name in self.given and not read_limits:
                raise ConfigurationError(
                    f"{name} needs Spark 4.2 or newer, which supports limits in Python sources",
                    condition="NEEDS_NEWER_SPARK",
                )
        for option in options_of(SourceOptions).values():
            if option.only == "batch" and option.name in self.given:
                raise ConfigurationError(
                    f"{option.name} belongs to batch reads; a streaming read ends with .trigger(availableNow=True)"
                )
        self.check_limits()

    def check_batch(self) -> None:
        """Raise ConfigurationError for options that do not apply to a batch read; warn of those without effect."""
        self.check_ends()
        stream_only = {option.name for option in options_of(SourceOptions).values() if option.only == "stream"}
        idle = stream_only & self.given
        if idle:
            _log.warning("options without effect in a batch read: %s", ", ".join(sorted(idle)))
