"""Where the group's position is kept besides Spark's checkpoint: the offsets table, and the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spark_source.options import parsers as to
from spark_source.options.option import option, optional, secrets

__all__ = ["ProgressOptions"]


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
