"""Changes of a database's rows, as Debezium and Canal write them in JSON: their rows, what was done, and in which
order. Expressions of Spark, without I/O.

The facts are from Debezium's documentation of its connectors' events, from Canal's class FlatMessage, and from Apache
InLong at a6c7a6a6: DataTypeEnum, and the classes CanalJsonDynamicSchemaFormat and DebeziumJsonDynamicSchemaFormat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, LongType, StringType, StructField, StructType

from spark_source.typed.readings import Reading, cast_of, faults_of, json_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from spark_source.typed.record_format import RecordFormat


def changes_of(form: RecordFormat, text: Column, read: Column, arrival: Column) -> Reading:
    """How `form` reads `text`; `read` is the column in which the caller keeps `Reading.read`, and `arrival` says when
    the message came.

    The Reading's column is an array of structs: the schema's columns and the change. What changes no row is one without
    values.
    """
    reading = _debezium if form.kind == "debezium-json" else _canal
    return reading(form, text, read, arrival)


def change_of(operation: Column, *order: Column) -> Column:
    """The struct of what was done, and of what orders the changes of a key."""
    return F.struct(operation.alias("operation"), F.struct(*order).alias("sequence"))


# Columns that are computed in turn. As one expression it would be more than Java compiles of a method.
_ENVELOPE: Final = "__envelope"
_EVENT: Final = "__event"
_FOUND: Final = "__found"
_FAULT: Final = "__fault"

_OPERATIONS: Final = {
    "c": "insert",
    "r": "snapshot",
    "u": "update",
    "d": "delete",
    "t": "truncate",
    "m": "message",
}
"""Debezium's."""
_NUMBERS: Final = ("pos", "row", "lsn", "scn", "ssn", "ord", "event_serial_no")
_HEX: Final = ("commit_lsn", "change_lsn")
"""What the databases call a place in their log; each has some of them."""
_TOMBSTONE: Final = r'^\s*+(?:null|\{\s*+"schema"\s*+:\s*+null\s*+,\s*+"payload"\s*+:\s*+null\s*+\})?+\s*+$'


def _debezium(form: RecordFormat, text: Column, read: Column, arrival: Column) -> Reading:
    """An event with one row, alone or as `payload` beside its schema."""
    source = _struct({"ts_ms": LongType(), **dict.fromkeys(("snapshot", "file", *_NUMBERS, *_HEX), StringType())})
    fields = {
        **dict.fromkeys(("op", "before", "after", "ddl", "status"), StringType()),
        "ts_ms": LongType(),
        "source": source,
    }
    whole = _struct({**fields, "payload": _struct(fields)})
    outer = _envelope(form, text, whole)
    given = dict(zip(whole.names, outer.columns, strict=True))
    picked = F.struct(*(F.coalesce(given["payload"][n], given[n]).alias(n) for n in fields), outer.fault.alias(_FAULT))
    op, before, after, ddl, status, ts_ms, source_of = (F.col(_EVENT)[n] for n in fields)

    is_tombstone = F.rlike(F.coalesce(text, F.lit("")), F.lit(_TOMBSTONE))
    words = F.create_map(*(F.lit(text) for pair in _OPERATIONS.items() for text in pair))
    no_row = before.isNull() & after.isNull()
    other = (
        F.when(ddl.isNotNull(), "ddl")
        .when(status.isin("BEGIN", "END"), "transaction")
        .when(ts_ms.isNotNull() & no_row, "heartbeat")
    )
    operation = F.when(is_tombstone, "tombstone").when(op.isNull(), other).otherwise(F.try_element_at(words, op))
    has_row = op.isNotNull() & ~operation.isin("truncate", "message")
    image = F.when(has_row, F.when(operation == "delete", before).otherwise(after))
    # A snapshot is what was there before all changes, and may be read after some of them.
    is_first = (operation == "snapshot") & (F.coalesce(source_of["snapshot"], F.lit("true")) != "incremental")
    time = F.when(~is_first, F.coalesce(source_of["ts_ms"], ts_ms))
    numbers = [F.regexp_extract(source_of["file"], r"(\d+)$", 1), *(source_of[name] for name in _NUMBERS)]
    position = F.concat(
        *(_hex(source_of[name]) for name in _HEX),
        F.filter(F.array(*(number.try_cast("bigint") for number in numbers)), lambda number: number.isNotNull()),
    )
    found = {"operation": operation, "has_row": has_row, "image": image, "time": time, "position": position}
    before_reading = (
        (_ENVELOPE, outer.read),
        (_EVENT, picked),
        (_FOUND, F.struct(*(column.alias(name) for name, column in found.items()))),
    )
    operation, has_row, image, time, position = (F.col(_FOUND)[name] for name in found)
    inner = json_of(replace(form, kind="json", schema=_of_deletes(form)), image, read)
    read_of = dict(zip(form.columns.names, inner.columns, strict=True))
    fault = F.coalesce(
        F.col(_EVENT)[_FAULT],
        F.when(operation.isNull(), F.when(op.isNull(), "there is no op").otherwise("op is none of Debezium's")),
        *_truncated(form, operation),
        F.when(has_row & image.isNull(), "there is no row in after, or of a delete in before"),
        F.when(has_row, F.coalesce(inner.fault, *_missing(form, operation, read_of))),
    )
    change = change_of(operation, *_order(time, position, arrival, F.lit(0)))
    rows = F.array(F.struct(*inner.columns, change.alias("change")))
    return Reading(inner.read, (rows,), F.when(operation.isNull() | (operation != "tombstone"), fault), before_reading)


def _canal(form: RecordFormat, text: Column, read: Column, arrival: Column) -> Reading:
    """A message with the rows of a statement, whose values are texts. `old` has what an update changed."""
    schema = form.columns
    images = ArrayType(_struct(dict.fromkeys(schema.names, StringType())))
    old_keys = {"old": ArrayType(_struct(dict.fromkeys(form.keys, StringType())))} if form.keys else {}
    whole = _struct(
        {
            "data": images,
            "type": StringType(),
            **dict.fromkeys(("es", "ts", "id"), LongType()),
            **dict.fromkeys(("isDdl", "ddl"), BooleanType()),
            **old_keys,
        }
    )
    outer = _envelope(form, text, whole)
    event = F.struct(*outer.columns, outer.fault.alias(_FAULT))
    given = {name: F.col(_EVENT)[name] for name in whole.names}
    data, kind = given["data"], F.lower(given["type"])
    is_ddl = F.coalesce(given["isDdl"], given["ddl"], F.lit(False))
    operation = F.when(is_ddl & (kind != "truncate"), "ddl").otherwise(kind)
    has_rows = operation.isin("insert", "update", "delete")
    has_data = F.coalesce(F.array_size(data) > 0, F.lit(False))

    def typed(image: Column, operation: Column, row: Column) -> Column:
        columns = {one.name: cast_of(form, image[one.name], one) for one in schema}
        texts = [image[one.name] for one in schema]
        fault = F.coalesce(
            *faults_of(_of_deletes(form), texts, list(columns.values())),
            *_missing(form, operation, columns),
            F.lit(None).cast("string"),
        )
        values = F.struct(*(column.alias(name) for name, column in columns.items()))
        return F.struct(values.alias("values"), operation.alias("operation"), row.alias("row"), fault.alias("fault"))

    found = F.transform(data, lambda image, row: typed(image, operation, row))
    if form.keys:
        # A row whose key was changed is a row less, and a new one.

        def former(image: Column, row: Column) -> Column:
            old = F.get(given["old"], row)
            is_moved = reduce(or_, (F.coalesce(old[key] != image[key], F.lit(False)) for key in form.keys))
            before = reduce(lambda one, key: one.withField(key, F.coalesce(old[key], image[key])), form.keys, image)
            return F.when((operation == "update") & is_moved, typed(before, F.lit("delete"), row))

        found = F.concat(F.filter(F.transform(data, former), lambda row: row.isNotNull()), found)
    fault = F.coalesce(
        F.col(_EVENT)[_FAULT],
        F.when(kind.isNull(), "there is no type"),
        *_truncated(form, operation),
        F.when(has_rows & ~has_data, "there are no rows in data"),
        F.when(~has_rows & ~is_ddl & has_data, "there are rows, and type is not INSERT, UPDATE or DELETE"),
        F.when(has_rows & F.exists(data, lambda image: image.isNull()), "a row in data is null"),
        F.get(F.filter(F.transform(read, lambda row: row["fault"]), lambda one: one.isNotNull()), F.lit(0)),
    )
    position = F.filter(F.array(given["ts"], given["id"]), lambda number: number.isNotNull())

    def change(operation: Column, row: Column) -> Column:
        return change_of(operation, *_order(given["es"], position, arrival, row)).alias("change")

    rows = F.transform(
        read,
        lambda row: F.struct(
            *(row["values"][name].alias(name) for name in schema.names), change(row["operation"], row["row"])
        ),
    )
    none = F.struct(*(F.lit(None).cast(one.dataType).alias(one.name) for one in schema), change(operation, F.lit(0)))
    all_rows = F.when(has_rows, rows).otherwise(F.array(none))
    return Reading(F.when(has_rows, found), (all_rows,), fault, ((_ENVELOPE, outer.read), (_EVENT, event)))


def _envelope(form: RecordFormat, text: Column, schema: StructType) -> Reading:
    return json_of(replace(form, kind="json", schema=schema, keys=(), options={}), text, F.col(_ENVELOPE))


def _order(time: Column, position: Column, arrival: Column, row: Column) -> tuple[Column, ...]:
    """What orders changes, in this order: a struct of these is compared field by field, and null is the least."""
    return (
        time.alias("time"),
        position.alias("position"),
        arrival["round"].alias("round"),
        arrival["place"].alias("place"),
        row.cast("int").alias("row"),
    )


def _of_deletes(form: RecordFormat) -> StructType:
    """The schema, where only a key must have a value: the log has perhaps no more of a row that is deleted."""
    return StructType([StructField(one.name, one.dataType, one.name not in form.keys) for one in form.columns])


def _missing(form: RecordFormat, operation: Column, columns: Mapping[str, Column]) -> Iterator[Column]:
    for one in form.columns:
        if not one.nullable and one.name not in form.keys:
            is_missing = (operation != "delete") & columns[one.name].isNull()
            yield F.when(is_missing, f"{one.name} is NOT NULL and has no value")


def _truncated(form: RecordFormat, operation: Column) -> Iterator[Column]:
    if form.keys:
        yield F.when(operation == "truncate", "TRUNCATE emptied the table there; empty this one by hand")


def _hex(text: Column) -> Column:
    """Numbers of a text as 0000002a:00000758:0005."""
    parts = F.when(F.rlike(text, F.lit("^[0-9a-fA-F]{1,8}(?::[0-9a-fA-F]{1,8})*$")), F.split(text, ":"))
    numbers = F.transform(parts, lambda part: F.conv(part, 16, 10).cast("bigint"))
    return F.coalesce(numbers, F.array().cast("array<bigint>"))


def _struct(fields: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])
