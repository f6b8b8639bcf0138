"""Tables for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tubeclient_cli.common.printable import printable

if TYPE_CHECKING:
    from tubeclient.keys import PartitionKey

__all__ = ["PlainConsole", "beyond_end", "number", "print_table", "spans", "time_text"]

_NO_LIMIT: Final = 100_000


class PlainConsole(Console):
    """A console that takes nothing in a text for markup, an emoji or a control character. Each printed text is one
    line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **settings})

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how)


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    keys: Collection[str] = (),
    right: Collection[str] = (),
) -> None:
    """Print a table in which nothing is cut. Columns of `keys` and `right` stay on one line, as users copy them; the
    others fold. Where even that does not fit, the terminal breaks the lines."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        whole = column in keys or column in right
        table.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    needed = Measurement.get(console, console.options.update_width(_NO_LIMIT), table).minimum
    console.width = max(console.width, needed)
    console.print(table)


def number(value: int | None) -> str:
    """As people write it."""
    return "unknown" if value is None else f"{value:,}"


def time_text(moment: datetime) -> str:
    """A moment, in UTC to the second."""
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds")


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
