"""What a batch holds: how many rows, and whether any may be missing."""

from __future__ import annotations

from dataclasses import dataclass

from spark_source.options import parsers as to
from spark_source.options.option import option, optional
from tubeclient.errors import ConfigurationError

__all__ = ["BatchOptions", "MessageTimeOptions"]


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
