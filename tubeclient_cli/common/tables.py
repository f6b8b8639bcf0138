"""Tables for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["number", "table_of"]


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
        )
    for cells in filled:
        found.add_row(*cells)
    return found


def number(value: int | None) -> str:
    """As people write it."""
    return "unknown" if value is None else f"{value:,}"
