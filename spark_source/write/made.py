"""The messages made of a batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.errors import ConfigurationError
from tubeclient.outgoing import OutgoingMessage

__all__ = ["Limits", "Made", "bad_row", "bytes_of", "check_rows"]

Limits: TypeAlias = Callable[[Collection[str]], Mapping[str, int]]
"""Returns the most bytes of a message, by topic."""


class Made(NamedTuple):
    """Messages, and the rows in each."""

    messages: list[OutgoingMessage]
    first_rows: list[int]
    """The first row of each message, counted from 0 in the task."""
    rows: list[int]
    """How many rows each message has."""


def bad_row(number: int, reason: object) -> ConfigurationError:
    """The error for a row that cannot be sent; `number` counts from 0 in the task."""
    return ConfigurationError(f"row {number} of this task cannot be sent: {reason}")


def check_rows(wrong: pa.BooleanArray, first_row: int, reason: str) -> None:
    """Raise `bad_row` for the first row that is wrong; `first_row` is the first one's number."""
    place = pc.index(wrong, True).as_py()
    if place >= 0:
        raise bad_row(first_row + place, reason)


def bytes_of(column: pa.Array) -> pa.Array:
    """Texts as their UTF-8 bytes, without a copy; bytes as they are."""
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    return column.cast(pa.large_binary()) if pa.types.is_large_string(column.type) else column
