"""Tables for people."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tubeclient.printable import printable

if TYPE_CHECKING:
    from tubeclient.keys import PartitionKey

_NO_LIMIT: Final = 100_000


class PlainConsole(Console):
    """A console that takes nothing in a text for markup, an emoji or a control character. Each printed text is one
    line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **settings})

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how)


def print_rows(console: Console, rows: Sequence[Mapping[str, Any]], *, leave_out: Collection[str] = ()) -> None:
    """Print rows of a JSON document as a table in which nothing is cut. Columns without blanks stay on one line, as
    users copy them; the others fold. Where even that does not fit, the terminal breaks the lines."""
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    columns = []
    for name in [name for name in rows[0] if name not in leave_out]:
        values = [row[name] for row in rows]
        cells = [_cell(value) for value in values]
        is_number = all(value is None or type(value) is int for value in values)
        title = re.sub(r"[A-Z]", lambda found: f" {found[0].lower()}", name)
        whole = 0 if any(" " in cell for cell in cells) else max(map(cell_len, cells))
        table.add_column(title, justify="right" if is_number else "left", overflow="fold", min_width=whole)
        columns.append(cells)
    for row in zip(*columns, strict=True):
        table.add_row(*map(Text, row))
    needed = Measurement.get(console, console.options.update_width(_NO_LIMIT), table).minimum
    console.width = max(console.width, needed)
    console.print(table)


def _cell(value: object) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def time_text(moment: datetime) -> str:
    """A moment, in UTC to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def beyond_end(partitions: Iterable[str]) -> str:
    """What to say of partitions whose positions their brokers' messages do not reach."""
    return (
        f"positions beyond the broker's last message: {', '.join(partitions)}. The topic was recreated, or the "
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
