"""What a round's records become as Arrow: rows of the target, and rows of the table of bad records. Pure.

The same as `RecordFormat.parse` makes with Spark's expressions, for tasks that write files.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.typed.columns import ARRIVAL, BAD_REASON, CHANGE, LINEAGE, PLACE_WORDS, RECORD, UNREAD, VALUE
from spark_source.typed.record_format import RecordFormat
from tubeclient.records.changes import CHANGE_TYPE
from tubeclient_ingest.tables.partition_values import REASON, TEXT, is_refused

__all__ = ["bad_rows", "divided", "example_of", "target_table"]

_OWN: Final = (VALUE, ARRIVAL, RECORD, BAD_REASON, UNREAD)


def divided(
    form: RecordFormat, rows: pa.RecordBatch, partition_by: Sequence[str] = (), *, has_bad: bool = True
) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.Array]:
    """The good rows of what `Decoding` gives, or of the source's if the format is raw, the bad ones, and their
    reasons. raw has bad ones only where they are kept apart."""
    if form.kind == "raw" and (not has_bad or BAD_REASON not in rows.schema.names):
        reasons = pa.nulls(rows.num_rows, pa.string())
    else:
        reasons = rows.column(BAD_REASON)
    for name in partition_by:
        reasons = pc.coalesce(reasons, _of_partition(form, rows, name))
    if reasons.null_count == len(reasons):
        return rows, rows.slice(0, 0), reasons.slice(0, 0)
    is_good = pc.is_null(reasons)
    is_bad = pc.invert(is_good)
    return rows.filter(is_good), rows.filter(is_bad), reasons.filter(is_bad)


def _of_partition(form: RecordFormat, rows: pa.RecordBatch, name: str) -> pa.Array:
    """The reason for rows whose value of a column that partitions the table cannot be one."""
    is_list = form.schema is not None and pa.types.is_list(rows.column(RECORD).type)
    if form.schema is None:
        values = rows.column(name)
    else:
        records = rows.column(RECORD)
        flat = pc.list_flatten(records) if is_list else records
        values = pc.struct_field(flat, [flat.type.get_field_index(name)])  # a name may look like a path
    if not pa.types.is_string(values.type):
        return pa.nulls(rows.num_rows, pa.string())
    refused = is_refused(values, name)
    if is_list:
        flags = np.zeros(rows.num_rows, bool)
        flags[pc.list_parent_indices(records).filter(refused).to_numpy()] = True
        refused = pa.array(flags)
    return pc.if_else(refused, f"{REASON.format(name)}{TEXT}", pa.scalar(None, pa.string()))


def target_table(form: RecordFormat, good: pa.RecordBatch, number: int) -> pa.Table:
    """The rows that the target gets of good records, for its commit of this number; raw ones as they are, with all of
    the source's columns and `ARRIVAL`."""
    if form.schema is None:
        return pa.Table.from_batches([good])
    records = good.column(RECORD)
    lineage = _struct({name: good.column(name) for name in good.schema.names if name not in _OWN})
    if not pa.types.is_list(records.type):
        columns = dict(zip(form.columns.names, records.flatten(), strict=True))
        return pa.table({**columns, LINEAGE: lineage})
    parents, rows = pc.list_parent_indices(records), pc.list_flatten(records)
    columns = dict(zip((*form.columns.names, CHANGE), rows.flatten(), strict=True))
    operation, absent, sequence = columns[CHANGE].flatten()
    parts = dict(zip((field.name for field in CHANGE_TYPE.field("sequence").type), sequence.flatten(), strict=True))
    parts["round"] = pa.repeat(pa.scalar(number, pa.int64()), len(rows))
    parts["place"] = good.column(ARRIVAL).take(parents)
    columns[CHANGE] = _struct({"operation": operation, "absent": absent, "sequence": _struct(parts)})
    return pa.table({**columns, LINEAGE: lineage.take(parents)})


def bad_rows(
    form: RecordFormat, bad: pa.RecordBatch, reasons: pa.Array, same: Mapping[str, str | int], schema: pa.Schema
) -> pa.Table:
    """The rows of the table of bad records, which has this schema; `same` is what all of them have."""
    count = bad.num_rows
    unread = pc.is_valid(bad.column(BAD_REASON)) if form.kind == "raw" else bad.column(UNREAD)
    own = {
        "reason": reasons,
        "time": pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")), count),
        "id": pa.array([str(uuid.uuid4()) for _ in range(count)], pa.string()),
        UNREAD: unread,
        "place": bad.column(ARRIVAL) if form.has_change else pa.nulls(count, pa.int64()),
    }
    own |= {name: pa.repeat(pa.scalar(value), count) for name, value in same.items()}
    own |= {name: bad.column(name) for name in bad.schema.names if name not in _OWN or name == VALUE}
    return pa.table({field.name: own.get(field.name, pa.nulls(count, field.type)) for field in schema})


def example_of(bad: pa.RecordBatch, reasons: pa.Array) -> str:
    """The place and the reason of the first of bad rows, for people."""
    names = set(bad.schema.names)
    found = {word: bad.column(name)[0].as_py() for name, word in PLACE_WORDS.items() if name in names}
    place = ", ".join(f"{word} {value}" for word, value in found.items() if value is not None)
    return f"{place or 'a batch'}: {reasons[0]}"


def _struct(columns: Mapping[str, pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
