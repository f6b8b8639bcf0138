"""Tables for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from tubeclient_cli.common.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tubeclient.keys import PartitionKey

__all__ = ["number", "print_table", "spans", "table_of"]


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, keys: Collection[str] = (), right: Collection[str] = ()
) -> Table:
    """A table in which nothing is cut. In columns of `keys` no cell is broken over lines, as far as the terminal's
    width allows: users copy keys."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    filled = [tuple(Text(printable(cell)) for cell in row) for row in rows]
    for place, column in enumerate(columns):
        longest = max((line[place].cell_len for line in filled), default=0)
        found.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            # Rich would narrow every column that has no width.
            width=max(longest, *map(len, column.split())) if column in keys else None,
        )
    for cells in filled:
        found.add_row(*cells)
    return found


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    keys: Collection[str] = (),
    right: Collection[str] = (),
    less: Sequence[str] = (),
) -> None:
    """Print a table that fits the terminal. Texts fold. Columns of `less` are left out, the first one first, until
    columns of `keys` and `right` fit unbroken. Without a terminal, lines are as long as they are, and have all
    columns."""
    from rich.measure import Measurement

    left, kept = [*columns], [list(row) for row in rows]
    if not console.is_terminal:
        _print_plain(console, left, kept, right)
        return
    unlimited = console.options.update_width(_NO_LIMIT)
    table = table_of(left, kept, right=right)
    if Measurement.get(console, unlimited, table).maximum <= console.width:
        console.print(table)
        return
    out: list[str] = []
    while True:
        table = table_of(left, kept, keys={*keys, *right}, right=right)
        fits = Measurement.get(console, unlimited, table).minimum <= console.width
        if fits or len(out) == len(less):
            break
        out.append(less[len(out)])
        place = left.index(out[-1])
        for cells in (left, *kept):
            del cells[place]
    if fits:
        console.print(table)
    else:  # the terminal breaks the lines, and nothing is lost
        _print_plain(console, left, kept, right)
    if out:
        console.print(f"left out, as the terminal is too narrow: {', '.join(out)}; --json has them", soft_wrap=True)


_NO_LIMIT = 100_000


def _print_plain(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str]
) -> None:
    """Print the table's lines, two blanks between columns."""
    lines = [columns, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]

    def aligned(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for cell, column, width in zip(line, columns, widths, strict=True)
        )
        return "  ".join(cells).rstrip()

    for line in lines:
        console.print(aligned(line), soft_wrap=True)


def number(value: int | None) -> str:
    """As people write it."""
    return "unknown" if value is None else f"{value:,}"


def beyond_end(keys: Iterable[PartitionKey]) -> str:
    """What to say of partitions whose positions their brokers' messages do not reach."""
    return (
        f"positions beyond the last message of their broker: {', '.join(spans(keys))}. The topic was made anew, or the "
        "broker lost its newest messages"
    )


def spans(keys: Iterable[PartitionKey]) -> list[str]:
    """Short texts for sorted partitions: neighbours on one broker as `1:clicks:0-3`."""
    found: list[tuple[PartitionKey, int]] = []
    for key in keys:
        if found and (first := found[-1][0])[:2] == key[:2] and found[-1][1] + 1 == key.partition_id:
            found[-1] = first, key.partition_id
        else:
            found.append((key, key.partition_id))
    return [str(first) if first.partition_id == last else f"{first}-{last}" for first, last in found]
