"""Columns computed of a record's columns by SQL expressions: renamed, cast, hashed, left out.

DuckDB computes them, in the process that reads the records. A value that it cannot compute makes the record bad, where
an expression of Spark's would end the job or give null. A column that is taken as it is never goes through DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.typed.columns import CHANGE
from spark_source.typed.selection import ROW, Flags, SelectedColumn, Selection, Sql, in_utc
from tubeclient.records.changes import CHANGE_TYPE
from tubeclient.records.decoder import Decoded, Decoder

__all__ = ["Selecting"]

_WRITTEN: Final = ("insert", "update", "snapshot", "delete")
"""The operations of changes that are about a row."""


class Selecting:
    """A decoder whose records have a selection's columns; for one thread."""

    def __init__(self, selection: Selection, decoder: Decoder) -> None:
        self._decoder = decoder
        self._outputs = selection.outputs
        self._computed = [output for output in selection.outputs if output.sql]
        self._width = selection.width
        self._time_zone = selection.time_zone

    @cached_property
    def _sql(self) -> Sql:
        return Sql(self._time_zone)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """As Decoder.decode. A record is bad as well if a value cannot be computed."""
        records, reasons = self._decoder.decode(values)
        if not pa.types.is_list(records.type):
            is_good = pc.is_null(reasons)
            rows, found = self._rows(records.filter(is_good))
            reasons = pc.replace_with_mask(reasons, is_good, found)
            at = pc.if_else(is_good, pc.subtract(pc.cumulative_sum(pc.cast(is_good, pa.int64())), 1), None)
            return Decoded(rows.take(pc.if_else(pc.is_null(reasons), at, None)), reasons)
        rows, found = self._rows(pc.list_flatten(records))
        parents = pc.list_parent_indices(records)
        if found.null_count < len(found):
            is_bad = pc.is_valid(found)
            # The first of a record's faults, as later entries win.
            faults = [*zip(parents.filter(is_bad).to_pylist(), found.filter(is_bad).to_pylist(), strict=True)][::-1]
            reasons = pc.coalesce(reasons, pa.array(map(dict(faults).get, range(len(reasons))), pa.string()))
            rows = rows.filter(pc.is_null(reasons.take(parents)))
        is_bad = pc.is_valid(reasons)
        lengths = pc.if_else(is_bad, 0, pc.fill_null(pc.list_value_length(records), 0))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        return Decoded(pa.ListArray.from_arrays(offsets, rows, mask=is_bad), reasons)

    def _rows(self, records: pa.StructArray) -> tuple[pa.StructArray, pa.StringArray]:
        """The rows of good records, and why some are bad after all."""
        names, arrays = [field.name for field in records.type], records.flatten()
        columns = dict(zip(names[: self._width], arrays, strict=False))
        others = dict(zip(names[self._width :], arrays[self._width :], strict=True))
        known, reasons = None, pa.nulls(len(records), pa.string())
        if CHANGE in others:
            change = others[CHANGE]
            known, absent, reasons = self._known(change)
            operation, _, sequence = change.flatten()
            others[CHANGE] = pa.StructArray.from_arrays([operation, absent, sequence], fields=list(change.type))
        values, failed = self._values(columns, known, len(records))
        made = [
            (output.name, values[output.name] if output.sql else columns[output.needs[0]]) for output in self._outputs
        ]
        made += others.items()
        fields = [pa.field(name, array.type) for name, array in made]
        rows = pa.StructArray.from_arrays([array for _, array in made], fields=fields)
        return rows, pc.coalesce(reasons, failed)

    def _known(self, change: pa.StructArray) -> tuple[dict[str, pa.Array], pa.Array, pa.StringArray]:
        """Of changes: which rows know what a computed column needs, which columns they do not know, and why rows are
        bad: an update that knows a part of it says nothing of the column."""
        operations, absents = change.field("operation"), change.field("absent")
        is_written = pc.is_in(operations, pa.array(_WRITTEN)).to_numpy(zero_copy_only=False)
        known = {column.name: is_written.copy() for column in self._computed}
        rows = np.flatnonzero(pc.is_valid(absents).to_numpy(zero_copy_only=False))
        lists: list[list[str] | None] = [None] * len(change)
        reasons: list[str | None] = [None] * len(change)
        some = [array.take(pa.array(rows)).to_pylist() for array in (absents, operations)]
        for row, names, operation in zip(rows.tolist(), *some, strict=True):
            lacking = set(names)
            unknown = [output for output in self._outputs if not lacking.isdisjoint(output.needs)]
            lists[row] = [output.name for output in unknown] or None
            for output in unknown:
                if output.sql:
                    known[output.name][row] = False
                if operation == "update" and not lacking.issuperset(output.needs):
                    which = ", ".join(sorted(lacking.intersection(output.needs)))
                    reasons[row] = f"{output.name} is also computed from {which}, which the update does not have"
        found = {name: pa.array(flags) for name, flags in known.items()}
        return found, pa.array(lists, CHANGE_TYPE.field("absent").type), pa.array(reasons, pa.string())

    def _values(
        self, columns: Mapping[str, pa.Array], known: Mapping[str, pa.Array] | None, count: int
    ) -> tuple[dict[str, pa.Array], pa.StringArray]:
        """The computed columns by name, and why rows are bad. `known` are the rows in which one is computed; None:
        all."""
        if not self._computed:
            return {}, pa.nulls(count, pa.string())
        needed = {name for column in self._computed for name in column.needs}
        rows = {name: array for name, array in columns.items() if name in needed}
        expressions = [column.sql for column in self._computed]
        if known is not None:
            rows |= {f"{ROW}{at}": known[column.name] for at, column in enumerate(self._computed)}
            expressions = [f"CASE WHEN {ROW}{at} THEN {sql} END" for at, sql in enumerate(expressions)]
        table = pa.table({**rows, ROW: pa.array(np.arange(count))})
        try:
            found = self._sql.columns(expressions, table)
            made = [_cast(array, column.type) for array, column in zip(found, self._computed, strict=True)]
            values = {column.name: array for column, array in zip(self._computed, made, strict=True)}
            reasons = pa.nulls(count, pa.string())
        except self._sql.error:
            values, texts = {}, list[str | None]([None] * count)
            for column, sql in zip(self._computed, expressions, strict=True):
                values[column.name], failed = self._some(column, sql, table, 0)
                for row in failed:
                    texts[row] = (
                        texts[row] or f"{column.name} cannot be computed from {', '.join(column.needs) or 'it'}"
                    )
            reasons = pa.array(texts, pa.string())
        faults = [(f"{name} is a date outside the years 1 to 9999", _where(values[name], _is_far)) for name in values]
        if (zone := self._time_zone) != "UTC":
            reason = f"DuckDB and this Python have different data of {zone} for the time in"
            times = [*((name, columns[name]) for name in needed), *values.items()]  # one name may be of both
            faults += [(f"{reason} {name}", _where(array, self._sql.differs)) for name, array in times]
        for reason, is_bad in faults:
            if is_bad.any():
                of_bad = pc.if_else(pa.array(is_bad), pa.scalar(reason), pa.scalar(None, pa.string()))
                reasons = pc.coalesce(reasons, of_bad)
        return values, reasons

    def _some(self, column: SelectedColumn, sql: str, rows: pa.Table, first: int) -> tuple[pa.Array, list[int]]:
        """A column of these rows, the first of which has this number; and the rows that have none."""
        try:
            return _cast(self._sql.columns([sql], rows)[0], column.type), []
        except self._sql.error:
            if rows.num_rows == 1:
                return pa.nulls(1, column.type), [first]
        try:
            found = self._sql.columns([f"TRY(struct_pack(v := {sql}))"], rows)[0]
            return _cast(found.flatten()[0], column.type), [
                first + row for row in np.flatnonzero(pc.is_null(found)).tolist()
            ]
        except self._sql.error:  # TRY takes no function such as random(); and DuckDB refuses some of Arrow's values
            half = rows.num_rows // 2
        before, failed = self._some(column, sql, rows.slice(0, half), first)
        after, failed_after = self._some(column, sql, rows.slice(half), first + half)
        return pa.concat_arrays([before, after]), [*failed, *failed_after]


def _is_far(array: pa.Array) -> Flags:
    """Which of some days or times Python's clocks do not show."""
    numbers = array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    first, last = (pa.scalar(bound).cast(array.type).cast(numbers.type) for bound in (datetime.min, datetime.max))
    outside = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
    return np.asarray(pc.fill_null(outside, False).to_numpy(zero_copy_only=False), bool)


def _where(array: pa.Array, is_wrong: Callable[[pa.Array], Flags]) -> Flags:
    """In which rows there are days or times, on any level, of which `is_wrong` is true."""
    kind, found = array.type, np.zeros(len(array), bool)
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return is_wrong(array)
    if pa.types.is_struct(kind):
        for part in array.flatten():
            found |= _where(part, is_wrong)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        items = array
        if pa.types.is_map(kind):
            pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
            items = pa.ListArray.from_arrays(array.offsets, pairs, mask=pc.is_null(array))
        rows = pc.list_parent_indices(items).to_numpy()
        found[rows[_where(pc.list_flatten(items), is_wrong)]] = True
    return found


def _cast(array: pa.Array, kind: pa.DataType | None) -> pa.Array:
    """A column with its times shown in UTC."""
    if in_utc(array.type) != kind:  # pyarrow's own error shows a value
        raise RuntimeError(f"DuckDB computes {array.type}, but computed {kind} when the job started")
    return array.cast(kind)
