"""Every option of reads and writes, one row each, which parses, documents and masks it; with those not built yet."""

from __future__ import annotations

from typing import Final

from spark_source.options import parsers as to
from spark_source.options.row import OptionRow
from spark_source.options.rows_connecting import ACCESS, CONNECTING
from spark_source.options.rows_reading import READING

__all__ = ["OPTIONS", "SPARKS_OWN", "find_row", "markdown"]

SPARKS_OWN: Final = ("checkpointLocation", "queryName")
"""What Spark hands to a sink along with the user's options."""

_WRITING: Final = (
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

OPTIONS: Final[tuple[OptionRow, ...]] = (*CONNECTING, *READING, *ACCESS, *_WRITING)
"""In the order of the documentation."""


def find_row(key: str) -> OptionRow | None:
    """The row of an option by its name in any case; None for an unknown one."""
    return next((row for row in OPTIONS if row.matches(key)), None)


def markdown() -> str:
    """The options as a Markdown table."""
    lines = ["| option | default | applies to | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.name}` | {row.default_doc} | {_uses(row)} | {row.doc} |" for row in OPTIONS]
    return "\n".join([*lines, ""])


def _uses(row: OptionRow) -> str:
    reads = {"both": ["reads"], "stream": ["streaming reads"], "batch": ["batch reads"], "none": []}[row.reads]
    return ", ".join([*reads, *(["writes"] if row.writes else [])])
