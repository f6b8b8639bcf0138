"""The columns of an offsets table; docs/offsets-table.md says what they mean.

The table is a plain Delta table at protocol 1/2 without table features, so that every Delta engine can share it. It is
partitioned by `consumerGroup`: groups never touch each other's files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from offsets_store.errors import SchemaMismatch

if TYPE_CHECKING:
    import pyarrow


PARTITION_COLUMN: Final = "consumerGroup"

POSITION: Final = "position"
"""A row's `kind`: where the group's next batch starts."""

INITIAL: Final = "initial"
"""A row's `kind`: an initial offset of a new query, kept until batch 0 is complete."""


VERSION: Final = 1
"""The `rowVersion` that this release writes and reads."""


class TableColumn(NamedTuple):
    """One column; `type` is Delta's name of it."""

    name: str
    type: str
    nullable: bool = False


COLUMNS: Final = (
    TableColumn(PARTITION_COLUMN, "string"),
    TableColumn("topicSet", "string"),
    TableColumn("kind", "string"),
    TableColumn("brokerId", "integer"),
    TableColumn("topic", "string"),
    TableColumn("partition", "integer"),
    TableColumn("nextOffset", "long"),
    TableColumn("endOffset", "long", nullable=True),
    TableColumn("lag", "long", nullable=True),
    TableColumn("nodeId", "integer", nullable=True),
    TableColumn("startOffset", "long", nullable=True),
    TableColumn("readers", "string", nullable=True),
    TableColumn("reason", "string", nullable=True),
    TableColumn("sourceCount", "integer"),
    TableColumn("runEpoch", "long"),
    TableColumn("sequence", "long"),
    TableColumn("startingOffsets", "string", nullable=True),
    TableColumn("updatedAt", "timestamp"),
    TableColumn("clientVersion", "string"),
    TableColumn("rowVersion", "integer"),
)

TABLE_PROPERTIES: Final = {
    # Keeps delta-spark and Databricks from raising the protocol, which delta-rs would not notice.
    "delta.enableDeletionVectors": "false",
    # A commit per batch makes many small versions, each a file of the log, and reads of the log list its folder.
    "delta.logRetentionDuration": "interval 1 days",
    # Each checkpoint names all files deleted within this time, one per commit.
    "delta.deletedFileRetentionDuration": "interval 1 days",
}

_SHOWN: Final = 3
"""How many columns an error names."""


def arrow_schema() -> pyarrow.Schema:
    """The columns as an Arrow schema."""
    import pyarrow as pa

    types = {"string": pa.string(), "integer": pa.int32(), "long": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}
    return pa.schema([pa.field(column.name, types[column.type], column.nullable) for column in COLUMNS])


def check_schema(found: Mapping[str, str], partitioned_by: Sequence[str], place: str) -> None:
    """Raise SchemaMismatch unless `found`, Delta's types by column, are those of an offsets table.

    `place` names the table in the message. Nullability is not compared: all rows come from this package.
    """
    types = {column.name: column.type for column in COLUMNS}
    lacking, others = [name for name in types if name not in found], sorted(found.keys() - types.keys())
    differences = [
        *([f"lacks {_names(lacking)}"] if lacking else []),
        *([f"also has {_names(others)}"] if others else []),
        *(f"has {name} as {found[name]}, not {of}" for name, of in types.items() if found.get(name, of) != of),
        *([] if list(partitioned_by) == [PARTITION_COLUMN] else [f"is partitioned by {_names(partitioned_by)}"]),
    ]
    if differences:
        raise SchemaMismatch(
            f"the Delta table at {place} is not an offsets table of this release. Give the offsets table its own "
            f"folder, or upgrade if a newer release made this one. The table {'; it '.join(differences)}"
        )


def _names(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return (", ".join(names[:_SHOWN]) or "nothing") + (f" and {more} more columns" if more > 0 else "")
