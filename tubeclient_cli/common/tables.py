"""Tables for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from tubeclient.keys import PartitionKey

__all__ = ["number", "spans", "table_of"]


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, keys: Collection[str] = (), right: Collection[str] = ()
) -> Table:
    """A table in which nothing is cut. In columns of `keys` no cell is broken over lines, as far as the terminal's
    width allows: users copy keys."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    filled = [tuple(map(Text, row)) for row in rows]
    for place, column in enumerate(columns):
        width = max((cell.cell_len for cells in filled for cell in (cells[place],)), default=0)
        found.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            min_width=width if column in keys else None,
            no_wrap=column in keys,
        )
    for cells in filled:
        found.add_row(*cells)
    return found


def number(value: int | None) -> str:
    """As people write it."""
    return "unknown" if value is None else f"{value:,}"


def spans(keys: Iterable[PartitionKey]) -> list[str]:
    """Short texts for sorted partitions: neighbours on one broker as `1:clicks:0-3`."""
    found: list[tuple[PartitionKey, int]] = []
    for key in keys:
        if found and (first := found[-1][0])[:2] == key[:2] and found[-1][1] + 1 == key.partition_id:
            found[-1] = first, key.partition_id
        else:
            found.append((key, key.partition_id))
    return [str(first) if first.partition_id == last else f"{first}-{last}" for first, last in found]
