"""Changes of a database's rows: which rows a message has, what was done to each, which columns it does not know, and
what orders the changes of a row.

A column that a message does not name, or whose value the database did not give, is *absent*: that is not null. A table
of newest states keeps the value that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from tubeclient.records.fault import BadRecord
from tubeclient.records.spec import Column, RecordSpec, columns_of
from tubeclient.records.values import missing

SEQUENCE_TYPE: Final = pa.struct(
    [
        ("time", pa.int64()),
        ("log", pa.string()),
        ("position", pa.list_(pa.int64())),
        ("round", pa.int64()),
        ("place", pa.int64()),
        ("row", pa.int32()),
    ]
)
"""What orders the changes of a row. Within one `log`, `position` does; between two, `time`, which is the database's in
ms since 1970. A row that a snapshot read has no time. `round` and `place` say where the message was read, which is
filled in where that is known; `row` is the place within the message."""
CHANGE_TYPE: Final = pa.struct(
    [("operation", pa.string()), ("absent", pa.list_(pa.string())), ("sequence", SEQUENCE_TYPE)]
)
"""`absent` names the schema's columns that the message does not know; null if there is none."""

ABSENT: Final = object()
"""Stands for the value of a column that is absent."""

Row: TypeAlias = dict[str, Any]
Image: TypeAlias = Callable[[Column], Any]
"""A row before or after a change: the value of a column, None, or `ABSENT`. BadRecord: it is not of the type."""

_TRUNCATED: Final = "TRUNCATE emptied the table in the database; empty this one by hand"


class Order(NamedTuple):
    """When a message's changes were made."""

    time: int | None
    """ms since 1970, by the database's clock."""
    log: str | None
    """Names the log whose places can be compared; None if that is not known."""
    position: list[int]
    """The place in it, as numbers that are compared in turn; [] if the message has none."""


class Rows:
    """Makes the rows of changes."""

    def __init__(self, spec: RecordSpec) -> None:
        self._columns = columns_of(spec)
        self._keys = tuple(column for column in self._columns if column.name in spec.keys)
        self._no_values = dict.fromkeys(column.name for column in self._columns)

    def nothing(self, operation: str, order: Order) -> list[Row]:
        """Of a message without rows. With keys a truncated table is bad: its rows would stay."""
        if operation == "truncate" and self._keys:
            raise BadRecord(_TRUNCATED)
        return [{**self._no_values, "change": _change(operation, [], order, 0)}]

    def row(self, operation: str, image: Image, order: Order, number: int = 0) -> Row:
        """A row that was written or deleted; `number` is its place in the message. BadRecord: a column that must have a
        value has none."""
        row: Row = {}
        absent: list[str] = []
        for column in self._columns:
            value = image(column)
            if value is ABSENT:
                absent.append(column.name)
            if value is None or value is ABSENT:
                self._check_missing(column, operation, is_absent=value is ABSENT)
                value = None
            row[column.name] = value
        row["change"] = _change(operation, absent, order, number)
        return row

    def update(self, before: Image | None, after: Image, order: Order, number: int = 0) -> list[Row]:
        """A row that was updated; with keys, if `before` has another key than `after`, also the row that is no longer
        there. Of a key's column that `before` does not know, the value did not change."""
        row = self.row("update", after, order, number)
        former: Row = {}
        for column in self._keys if before is not None else ():
            assert before is not None
            value = before(column)
            former[column.name] = row[column.name] if value is None or value is ABSENT else value
        if all(row[name] == value for name, value in former.items()):
            return [row]

        def image(column: Column) -> Any:
            assert before is not None
            return former[column.name] if column.name in former else before(column)

        return [self.row("delete", image, order, number), row]

    def _check_missing(self, column: Column, operation: str, *, is_absent: bool) -> None:
        if column in self._keys:
            raise BadRecord(f"{column.name} names the row, but is absent") if is_absent else missing(column)
        # The log has perhaps no more of a deleted row than its key; and an update may leave out what it does not
        # change, also where that is NOT NULL.
        if column.required and operation != "delete" and not (is_absent and operation == "update"):
            raise missing(column)


def _change(operation: str, absent: list[str], order: Order, number: int) -> Row:
    sequence = {**order._asdict(), "round": None, "place": None, "row": number}
    return {"operation": operation, "absent": absent or None, "sequence": sequence}
