"""Small tables for notebooks: what `_repr_html_` of this project's values return. Pure; all texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Final

from tubeclient.printable import printable

MOST_ROWS: Final = 20
"""A notebook keeps what it shows, and a group may have thousands of partitions."""
MOST_CHARACTERS: Final = 80
"""Of one cell."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, count: int) -> str:
    """A table of at most MOST_ROWS rows, with `title` above it. `count` is the number of all rows.

    Whole numbers have separators and stand to the right; None is empty; any other value is its `str`, whose characters
    of control are escapes.
    """
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in islice(rows, MOST_ROWS))
    more = f"<p>and {count - MOST_ROWS:,} more</p>" if count > MOST_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if count else ""
    return f"<div><p>{_text(title, cut=False)}</p>{table}{more}</div>"


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value:,}</td>'
    return f"<td>{'' if value is None else _text(str(value))}</td>"


def _text(text: str, *, cut: bool = True) -> str:
    shown = text if len(text) <= MOST_CHARACTERS or not cut else text[: MOST_CHARACTERS - 1] + "…"
    return escape(printable(shown))
