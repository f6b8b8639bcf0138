"""What all writers of the Delta table share: rows to Arrow data and back, and the schema check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from offsets_store.errors import SchemaMismatch
from offsets_store.rows import Row
from offsets_store.schema import COLUMNS, PARTITION_COLUMN, VERSION, arrow_schema

if TYPE_CHECKING:
    import pyarrow

__all__ = ["NAMES", "check_schema", "rows_from_arrow", "rows_to_arrow", "values_of"]

NAMES: Final = [column.name for column in COLUMNS]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rows_to_arrow(rows: Sequence[Row]) -> pyarrow.Table:
    """The rows as data for the table."""
    import pyarrow as pa

    schema = arrow_schema()
    if not rows:
        return schema.empty_table()
    columns = [*zip(*rows, strict=True), (VERSION,) * len(rows)]
    return pa.table([_array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema)


def rows_from_arrow(found: pyarrow.Table) -> list[Row]:
    """The table's data as rows; other columns are ignored. SchemaMismatch: a newer release wrote one of them."""
    *columns, versions = (values_of(found.column(name)) for name in NAMES)
    rows = list(map(Row._make, zip(*columns, strict=True)))
    if (newest := max(versions, default=VERSION)) > VERSION:
        by = rows[versions.index(newest)]
        raise SchemaMismatch(
            f"the offsets table's rows of group {by.consumer_group} have version {newest}: release {by.client_version}"
            f" of pyspark-tubeclient wrote them, and this one reads and writes version {VERSION}; upgrade"
        )
    return rows


def values_of(column: pyarrow.ChunkedArray) -> list[Any]:
    """The column's values as Python's; times are in UTC, to the microsecond.

    pyarrow's own times import pandas, which takes longer than all else that a command needs.
    """
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist()
        return found
    numbers = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    times = {number: _EPOCH + timedelta(microseconds=number) for number in {*numbers} if number is not None}
    return [times.get(number) for number in numbers]


def _array(values: tuple[object, ...], type_: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow as pa

    # Half of the columns are the same in all rows of a commit.
    if values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], type_), len(values))
    return pa.array(values, type_)


def check_schema(found: Mapping[str, str], partitioned_by: Sequence[str], place: str) -> None:
    """Raise SchemaMismatch unless the columns `found` are those of an offsets table. Types are in Spark's DDL form.

    `place` names the table in the message. Nullability is not compared: all rows come from this package.
    """
    types = {column.name: column.type for column in COLUMNS}
    lacking, others = [name for name in NAMES if name not in found], sorted(found.keys() - types.keys())
    differences = [
        *([f"lacks {_names(lacking)}"] if lacking else []),
        *([f"has {_names(others)} besides"] if others else []),
        *(f"has {name} as {found[name]}, not {of}" for name, of in types.items() if found.get(name, of) != of),
        *([] if list(partitioned_by) == [PARTITION_COLUMN] else [f"is partitioned by {_names(partitioned_by)}"]),
    ]
    if differences:
        raise SchemaMismatch(
            f"the Delta table at {place} is not an offsets table of this release. Name a folder of its own as the"
            " offsets table, or upgrade if a newer release made this one. The table"
            f" {'; it '.join(differences)}"
        )


def _names(names: Sequence[str]) -> str:
    """At most three of them."""
    more = len(names) - _SHOWN
    return (", ".join(names[:_SHOWN]) or "nothing") + (f" and {more} more columns" if more > 0 else "")


_SHOWN: Final = 3
