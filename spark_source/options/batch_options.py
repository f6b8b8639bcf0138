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
        "The most rows of one micro-batch, shared among the stores in proportion to what is behind in each; partitions "
        "that lag behind others of their store are read beside them. Exact while there is that much to read, the "
        "partitions of each store stand at the same offset, and nothing is filtered; an upper bound else.",
        only="stream",
    )
    min_offsets_per_trigger: int | None = optional(
        "minOffsetsPerTrigger",
        to.integer(1),
        None,
        "no wait",
        "Make no micro-batch before there are so many rows, counted as for `maxOffsetsPerTrigger`, or "
        "`maxTriggerDelay` has passed. Not for `Trigger.AvailableNow`, where nothing is added by waiting.",
        only="stream",
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay",
        to.duration_ms(0),
        "15m",
        "How long at most `minOffsetsPerTrigger` holds a micro-batch back.",
        only="stream",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        to.boolean,
        "true",
        "What to do where the brokers no longer hold what is to be read: end with an error that names partition "
        "and range, or (`false`) write a warning that counts what is lost and go on.",
    )

    def check_limits(self) -> None:
        """Raise ConfigurationError where no batch could keep both limits."""
        fewest, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if fewest is not None and most is not None and fewest > most:
            raise ConfigurationError(
                f"minOffsetsPerTrigger {fewest} is more than maxOffsetsPerTrigger {most}, so no batch could have that "
                "many rows; exchange or change them"
            )


@dataclass(frozen=True, kw_only=True)
class MessageTimeOptions:
    """How the times of messages are understood, in reads and in writes."""

    message_time_zone: str = option(
        "messageTimeZone",
        to.zone,
        "UTC",
        "The zone of the producers' clocks. Messages carry their time as text without a zone; Java producers write "
        "it in the default zone of their machine, in China as a rule `Asia/Shanghai`. A "
        "write puts the column `messageTime` down in this zone.",
    )
