"""Batches of the source's rows to batches with a typed record: what tasks do, where they read or behind other rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.typed.columns import BAD_REASON, CHANGE, RECORD, UNREAD, VALUE
from spark_source.typed.selecting import Selecting
from tubeclient.records import Decoded, Decoder, RecordSpec
from tubeclient.records.changes import CHANGE_TYPE
from tubeclient.records.spec import CHANGES

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

    from spark_source.typed.selection import Selection

_MOST_BYTES: Final = 16 << 20
"""Of what a batch's records may take by their schema alone. A record of two bytes may have six hundred columns, and so
may each item of a list."""
_ITEM_BYTES: Final = 16
"""Of an item in a record, as most have at least. With items of two bytes, "{}", a batch takes eight times as much."""


class Decoding:
    """A function of a frame's batches, for `mapInArrow`: it reads the column `value`. That stays in bad rows; in others
    only with `all_values`, for whoever may find a good record bad by another rule."""

    def __init__(
        self, spec: RecordSpec, columns: StructType, selection: Selection | None = None, *, all_values: bool
    ) -> None:
        """`columns` are the schema's, as Spark has them, or those of the selection."""
        self._spec, self._columns, self._all_values = spec, columns, all_values
        self._selection = selection

    def schema(self, rows: StructType) -> StructType:
        """The columns of what comes out, for the source's `rows`."""
        from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

        from spark_source.read.schema import spark_type

        record = StructType(
            [StructField(field.name, StringType() if is_variant(field) else field.dataType) for field in self._columns]
        )
        kind: DataType = record
        if self._spec.kind in CHANGES:
            kind = ArrayType(StructType([*record, StructField(CHANGE, spark_type(CHANGE_TYPE))]))
        # Good rows have no value, also where each message has one.
        own = [
            StructField(field.name, field.dataType, field.name == VALUE or field.nullable)
            for field in rows
            if field.name != BAD_REASON
        ]
        added = {RECORD: kind, BAD_REASON: StringType(), UNREAD: BooleanType()}
        return StructType([*own, *(StructField(name, data_type) for name, data_type in added.items())])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = Decoder(self._spec)
        decode = decoder.decode if self._selection is None else Selecting(self._selection, decoder).decode
        width, of_byte = _width(decoder.type), _widest_item(decoder.type) / _ITEM_BYTES
        for whole in batches:
            lengths = pc.fill_null(pc.binary_length(whole.column(VALUE)), 0)
            ends = pc.cumulative_sum(pc.add(pc.multiply(pc.cast(lengths, pa.float64()), of_byte), width)).to_pylist()
            start = 0
            while start < whole.num_rows:
                before = ends[start - 1] if start else 0
                end = max(start + 1, bisect_right(ends, before + _MOST_BYTES))
                yield from self._decoded(decode, whole.slice(start, end - start))
                start = end

    def _decoded(self, decode: Callable[[pa.BinaryArray], Decoded], batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if BAD_REASON in batch.schema.names:
            reasons = batch.column(BAD_REASON)
            if reasons.null_count < len(reasons):
                is_read = pc.is_null(reasons)
                unread = batch.filter(pc.invert(is_read))
                none = pa.nulls(unread.num_rows, decode(pa.array([], pa.binary())).records.type)
                yield self._batch(unread, none, unread.column(BAD_REASON), unread=True)
                batch = batch.filter(is_read)
        decoded = decode(batch.column(VALUE).cast(pa.binary()))
        yield self._batch(batch, decoded.records, decoded.reasons, unread=False)

    def _batch(self, rows: pa.RecordBatch, records: pa.Array, reasons: pa.Array, *, unread: bool) -> pa.RecordBatch:
        arrays, fields = [], []
        for field, column in zip(rows.schema, rows.columns, strict=True):
            if field.name == VALUE and not self._all_values:
                column = pc.if_else(pc.is_valid(reasons), column, pa.scalar(None, column.type))
            if field.name != BAD_REASON:
                arrays.append(column)
                # As `schema` says it, for sessions in which Spark compares the two.
                fields.append(field.with_nullable(field.name == VALUE or field.nullable))
        added = {RECORD: records, BAD_REASON: reasons, UNREAD: pa.repeat(pa.scalar(unread), rows.num_rows)}
        fields += [pa.field(name, array.type) for name, array in added.items()]
        return pa.RecordBatch.from_arrays([*arrays, *added.values()], schema=pa.schema(fields))


def is_variant(field: StructField) -> bool:
    """Whether a column is VARIANT: it is decoded as text."""
    return field.dataType.typeName() == "variant"


def _width(kind: pa.DataType) -> int:
    """About how many bytes a value takes at least."""
    if pa.types.is_struct(kind):
        return sum(_width(kind.field(at).type) for at in range(kind.num_fields))
    try:
        return int(kind.bit_width) // 8 + 1
    except ValueError:
        return 5  # an offset, and whether it is there


def _widest_item(kind: pa.DataType) -> int:
    """About how many bytes an item of a list takes at least, of the widest list within a value; 0 without any."""
    parts = [kind.field(at).type for at in range(kind.num_fields)]
    own = sum(map(_width, parts)) if pa.types.is_list(kind) or pa.types.is_map(kind) else 0
    return max([own, *map(_widest_item, parts)])
