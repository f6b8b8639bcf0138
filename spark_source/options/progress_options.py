"""Where the group's position is kept beside Spark's checkpoint: the offsets table, and the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spark_source.options import parsers as to
from spark_source.options.option import option, optional, secrets

__all__ = ["ProgressOptions"]


@dataclass(frozen=True, kw_only=True)
class ProgressOptions:
    """The offsets table and how it is written, and whether the brokers are told."""

    offsets_table: str | None = optional(
        "offsetsTable",
        to.location,
        None,
        "none",
        "Path or URI of a Delta table that keeps the group's position: what was read for certain. A streaming "
        "query writes it; `startingOffsets=group` reads it.",
    )
    offsets_table_mode: Literal["strict", "best_effort"] = option(
        "offsetsTableMode",
        to.choice("strict", "best_effort"),
        "best_effort",
        "What an offsets table means to the query that cannot be written while it runs, or is slow. `best_effort`: the "
        "table is written in the background, trouble is a warning, and the query goes on. `strict`: a batch is planned "
        "when the one before it is in the table, and trouble ends the query.",
        only="stream",
    )
    offset_commit_interval_ms: int = optional(
        "offsetCommitInterval",
        to.duration_ms(0),
        0,
        "every batch",
        "The least time between two commits to the offsets table, as in `10s`; there is never more than one for a "
        "batch. When the query ends, the last position is written all the same.",
        only="stream",
    )
    storage_options: Mapping[str, str] = secrets(
        "storageOption.*",
        to.text,
        "Access to the offsets table's storage, handed to delta-rs under the name behind the dot. This package "
        "never shows the values. Spark shows options in plans, except those that `spark.redaction.regex` matches: set "
        "that as conf/spark-defaults.conf does, or leave secrets to the driver's environment variables, which delta-rs "
        "reads too.",
    )
    commit_offsets_to_broker: bool = option(
        "commitOffsetsToBroker",
        to.boolean,
        "false",
        "Whether to set the group's position on the brokers to the end of each batch that is in the sink, for TubeMQ's "
        "consoles and other clients of the group. Needs the web ports of masters and brokers. Brokers that cannot be "
        "told are a warning.",
        only="stream",
    )
