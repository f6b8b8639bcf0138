"""What a Parquet file's own statistics say, as Delta has it in an add action: `numRecords`, `minValues`, `maxValues`,
`nullCount`. Pure.

Readers pass over files by these bounds, so each must hold. Texts are cut to a prefix, the greatest with the last
character behind it. Times are in whole milliseconds, the greatest rounded up. There is no bound where a column has a
NaN, which Spark takes for the greatest number, nor for values that JSON or other readers' calendars do not have.
(Source: PROTOCOL.md of delta-io/delta, "Per-file Statistics".)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["INDEXED_COLUMNS", "Leaf", "leaves", "statistics", "without_values"]

INDEXED_COLUMNS: Final = 32
"""How many columns have statistics, the first ones; Delta's default of delta.dataSkippingNumIndexedCols."""
_TEXT_CHARACTERS: Final = 32
_LAST_CHARACTER: Final = chr(0x10FFFF)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAYS: Final = range(1 - _EPOCH_DAY, date.max.toordinal() + 1 - _EPOCH_DAY)
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Leaf(NamedTuple):
    """A column of values of a file, at the place that Parquet gives it."""

    path: tuple[str, ...]
    kind: pa.DataType
    is_repeated: bool
    """Whether it is within a list or map: then its numbers are not those of rows."""


def leaves(schema: pa.Schema) -> list[Leaf]:
    """The columns of values, as Parquet numbers them."""
    return [leaf for field in schema for leaf in _leaves(field, (), is_repeated=False)]


def _leaves(field: pa.Field, above: tuple[str, ...], *, is_repeated: bool) -> Iterator[Leaf]:
    kind, path = field.type, (*above, field.name)
    within: list[pa.Field] = []
    if pa.types.is_struct(kind):
        within = [kind.field(number) for number in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        within, is_repeated = [kind.key_field, kind.item_field], True
    elif pa.types.is_list(kind):
        within, is_repeated = [kind.value_field], True
    else:
        yield Leaf(path, kind, is_repeated)
    for inner in within:
        yield from _leaves(inner, path, is_repeated=is_repeated)


def statistics(
    found: pq.FileMetaData, columns: list[Leaf], with_nan: Collection[tuple[str, ...]] = (), most: int = INDEXED_COLUMNS
) -> str:
    """The JSON of `stats` for a file of one row group with these columns, of which the first `most` count (-1: all);
    those at `with_nan` have a NaN."""
    document: dict[str, Any] = {"numRecords": found.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    group = found.row_group(0)
    for number, leaf in list(enumerate(columns))[: None if most < 0 else most]:
        own = None if leaf.is_repeated else group.column(number).statistics
        if own is None or not own.has_null_count:
            continue
        _put(document["nullCount"], leaf.path, own.null_count)
        written = _written(leaf.kind, own) if own.has_min_max and leaf.path not in with_nan else None
        if written is not None:
            _put(document["minValues"], leaf.path, written[0])
            _put(document["maxValues"], leaf.path, written[1])
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def without_values(stats: Iterable[str]) -> set[str]:
    """The columns in which no row of files with these statistics has a value, as far as they say; not those of nested
    types."""
    found: list[set[str]] = []
    for text in stats:
        document = json.loads(text)
        found.append({name for name, count in document["nullCount"].items() if count == document["numRecords"]})
    return set.intersection(*found) if found else set()


def _put(document: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value


def _written(kind: pa.DataType, own: pq.Statistics) -> tuple[Any, Any] | None:
    """The least and the greatest value as Delta writes them; None if there is no such bound."""
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        low, high = own.min_raw, own.max_raw
        write: Callable[[int], str] = _day
        if pa.types.is_timestamp(kind):
            low, high = low // 1000 * 1000, -(-high // 1000) * 1000
            write = _utc if kind.tz is not None else _local
        days = _DAY_US if pa.types.is_timestamp(kind) else 1
        return (write(low), write(high)) if low // days in _DAYS and high // days in _DAYS else None
    low, high = own.min, own.max
    if pa.types.is_string(kind):
        high = high if len(high) <= _TEXT_CHARACTERS else _cut_above(high)
        return None if high is None else (low[:_TEXT_CHARACTERS], high)
    if pa.types.is_integer(kind):
        return low, high
    if pa.types.is_floating(kind):
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None
    if pa.types.is_decimal(kind):
        numbers = float(low), float(high)
        # Readers may take JSON's numbers for doubles.
        is_same = all(Decimal(repr(number)) == exact for number, exact in zip(numbers, (low, high), strict=True))
        return numbers if is_same else None
    return None


def _cut_above(text: str) -> str | None:
    """A short text that is greater than the long `text` is; None if its beginning leaves none."""
    cut = text[:_TEXT_CHARACTERS]
    return None if text[_TEXT_CHARACTERS] == _LAST_CHARACTER else cut + _LAST_CHARACTER


def _day(days: int) -> str:
    return date.fromordinal(days + _EPOCH_DAY).isoformat()


def _local(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None).isoformat(timespec="milliseconds")


def _utc(microseconds: int) -> str:
    return f"{_local(microseconds)}Z"
