"""The columns of an offsets table: names, types, meanings.

The table is a plain Delta table at protocol 1/2 without table features, so that every Delta engine can share it. It is
partitioned by `consumerGroup`: groups never touch each other's files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "COLUMNS",
    "INITIAL",
    "PARTITION_COLUMN",
    "POSITION",
    "TABLE_PROPERTIES",
    "VERSION",
    "WAITING",
    "Column",
    "arrow_schema",
    "markdown",
]

PARTITION_COLUMN: Final = "consumerGroup"

POSITION: Final = "position"
"""A row's `kind`: where the group's next batch starts."""

INITIAL: Final = "initial"
"""A row's `kind`: an initial offset of a new query, kept until batch 0 is complete."""


WAITING: Final = "waiting"
"""A row's `kind`: the partition has no offset yet, because its broker was down; see Offsets.waiting."""


VERSION: Final = 1
"""The `rowVersion` that this release writes and reads."""


class Column(NamedTuple):
    """One column; `type` is in Spark's DDL form."""

    name: str
    type: str
    nullable: bool
    doc: str


COLUMNS: Final = (
    Column(PARTITION_COLUMN, "string", False, "The consumer group; the table's partition column."),
    Column("topicSet", "string", False, "The topics that the group's query subscribes, sorted and joined by commas."),
    Column(
        "kind",
        "string",
        False,
        "`position`; `initial` until the first batch is known to be complete; `waiting` without an offset yet.",
    ),
    Column("brokerId", "int", False, "The partition's broker."),
    Column("topic", "string", False, "The partition's topic."),
    Column("partitionId", "int", False, "The partition's id on that broker; store s holds the ids from s * 10 000 on."),
    Column("nextOffset", "bigint", False, "Index offset of the first entry that was not read yet, a multiple of 28."),
    Column(
        "endOffset", "bigint", True, "The broker's end of the partition at the time of the commit; null if unknown."
    ),
    Column("lag", "bigint", True, "(endOffset - nextOffset) / 28: at most so many rows were behind; null if unknown."),
    Column("nodeId", "int", True, "The node of the group that has the partition; null where there is none."),
    Column(
        "startOffset",
        "bigint",
        True,
        "Where the batch began in the partition that ended at nextOffset; null if the writer does not know.",
    ),
    Column(
        "readers",
        "string",
        True,
        "Where several nodes read that range, its parts in order: JSON of `nodeId`, `startOffset` and `endOffset`.",
    ),
    Column(
        "reason",
        "string",
        True,
        "Why that node: the assignment strategy, and `; backlog taken over` where other nodes took part of the range.",
    ),
    Column("sourceCount", "int", False, "How many nodes the group had."),
    Column(
        "runEpoch",
        "bigint",
        False,
        "The run that wrote the row: milliseconds since 1970 at its start, made unique; 0 if only a listener writes.",
    ),
    Column("sequence", "bigint", False, "Counts the group's commits, over all its topic sets."),
    Column("startingOffsets", "string", True, "Only for `initial`: the starting options that the row answers."),
    Column(
        "updatedAt",
        "timestamp",
        False,
        "When the position was valid, UTC: the sink had the batch then. Usually just before the commit.",
    ),
    Column(
        "clientVersion",
        "string",
        False,
        "The release that wrote the row, then `(offsets reset)` if a reset did.",
    ),
    Column(
        "rowVersion", "int", False, "1, of the columns and what they mean. A release refuses rows of a newer version."
    ),
)

TABLE_PROPERTIES: Final = {
    # Keeps delta-spark and Databricks from raising the protocol, which delta-rs would not notice.
    "delta.enableDeletionVectors": "false",
    # A commit per batch makes many small versions, each a file of the log, and reads of the log list its folder.
    "delta.logRetentionDuration": "interval 1 days",
    # Each checkpoint names all files deleted within this time, one per commit.
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


def arrow_schema() -> pyarrow.Schema:
    """The columns as an Arrow schema."""
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC")}
    return pa.schema([pa.field(column.name, types[column.type], column.nullable) for column in COLUMNS])


def markdown() -> str:
    """The columns as a Markdown table, for the documentation."""
    rows = [f"| `{c.name}` | {c.type} | {c.doc} |" for c in COLUMNS]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows]) + "\n"
