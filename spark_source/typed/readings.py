"""How the text of a record is read, format by format: Spark's expressions for its columns and for what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, IntegerType, StringType, StructField, StructType

from spark_source.options.table_uris import quoted
from spark_source.typed.avro import is_whole, read_avro
from spark_source.typed.field_texts import fault_of_escapes, fields_of, pairs_of
from spark_source.typed.numbers import (
    VERY_MANY_DIGITS,
    WILD_EXPONENT,
    WILD_NUMBER,
    has_far,
    numbers_of,
    suspect_text,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

    from spark_source.typed.record_format import RecordFormat


class Reading(NamedTuple):
    """How a text becomes columns."""

    read: Column
    """Computed once for each text; the other two use it."""
    columns: tuple[Column, ...]
    """The schema's columns, in its order, with its names."""
    fault: Column
    """What is wrong, and in which column; null in a good record."""
    before: tuple[tuple[str, Column], ...] = ()
    """Columns that are computed in turn before `read`, with the names by which the others use them."""


def reading_of(form: RecordFormat, text: Column, read: Column) -> Reading:
    """How `form` reads `text`; `read` is the column in which the caller keeps `Reading.read`. Avro's text is bytes."""
    if form.kind == "avro":
        columns = [read["record"][name] for name in form.columns.names]
        broken = F.when(~is_whole(text, read), "the bytes are not one Avro record of the schema")
        fault = F.coalesce(broken, *_limits(form.columns, columns))
        return Reading(read_avro(text, form.avro, form.options), _named(form.columns, columns), fault)
    if form.kind == "json":
        return json_of(form, text, read)
    if form.kind == "csv" and form.escape is None and form.options.get("quote") != "":
        return _csv(form, text, read)
    return _split(form, text, read)


def json_of(form: RecordFormat, text: Column, read: Column) -> Reading:
    """JSON objects.

    Spark reads one value and takes no notice of what follows it. So the text becomes the one element of a list within
    an object: the list must have one element, and the object must go on behind it.
    """
    schema = form.columns
    options = _options(form, _CORRUPT)
    wrapped = F.concat(F.lit(f'{{"{_LIST}":['), text, F.lit(f'],"{_END}":1}}'))
    # A text with a bracket may close the list and open another one, which the wrapper ends. Between other brackets it
    # is no JSON then.
    other = F.concat(F.lit('{"one":'), text, F.lit(f',"{_END}":1}}'))
    ends = F.from_json(other, StructType([StructField(_END, IntegerType())]), options)[_END].isNotNull()
    # With other numbers, and read for the decimals only, a record with wild ones is bad at once.
    decimals = [field for field in _nullable(schema) if "decimal" in field.dataType.simpleString()]
    tamed = F.regexp_replace(F.regexp_replace(wrapped, WILD_EXPONENT, "e999"), VERY_MANY_DIGITS, "1e999")
    is_wild = F.when(tamed != wrapped, F.from_json(tamed, _wrapper(decimals), options)[_CORRUPT].isNotNull())
    wild = F.coalesce(is_wild, F.lit(False)) if decimals else F.lit(False)
    bounded = numbers_of(schema)
    numbers = F.from_json(suspect_text(text, schema), bounded, options) if isinstance(bounded, StructType) else None
    both = F.struct(
        F.from_json(F.when(~wild, wrapped), _wrapper(_nullable(schema).fields), options).alias("read"),
        F.when(F.contains(text, F.lit("]")), ends).otherwise(F.lit(True)).alias("ends"),
        wild.alias("wild"),
        *([numbers.alias("numbers")] if numbers is not None else []),
    )
    far = [
        F.when(has_far(read["numbers"][field.name], field.dataType), _not_of_type(field))
        for field in schema.fields
        if numbers_of(field.dataType) is not None
    ]
    read, closes, wild = read["read"], ~read["ends"], read["wild"]
    record = F.get(read[_LIST], F.lit(0))
    columns = [record[name] for name in schema.names]
    one = read[_END].isNotNull() & (F.size(read[_LIST]) == 1) & record.isNotNull()
    whole = read[_CORRUPT].isNull() & one & ~closes
    given = [
        # The path's syntax has no way to write a name with this character.
        F.lit(None) if "'" in name else F.get_json_object(text, f"$['{name}']")
        for name in schema.names
    ]
    follows = F.get_json_object(wrapped, f"$.{_END}").isNull() | F.get_json_object(wrapped, f"$.{_LIST}[1]").isNotNull()
    broken = F.coalesce(
        F.when(F.try_parse_json(text).isNull(), "the text is not JSON"),
        F.when(~F.startswith(F.ltrim(text), F.lit("{")), "the text is not a JSON object"),
        F.when(follows | closes, "something follows the JSON object"),
        F.when(wild, f"the value of {' or '.join(field.name for field in decimals)} is not of its type"),
        *map(_misfit, schema.fields, given, columns),
        F.lit("a value is not of its type"),
    )
    fault = F.coalesce(F.when(~F.coalesce(whole, F.lit(False)), broken), *far, *_limits(schema, columns))
    return Reading(both, _named(schema, columns), fault)


def _wrapper(fields: list[StructField]) -> StructType:
    of_list = StructField(_LIST, ArrayType(StructType(fields)))
    return StructType([of_list, StructField(_END, IntegerType()), StructField(_CORRUPT, StringType())])


def _csv(form: RecordFormat, text: Column, read: Column) -> Reading:
    """Spark's csv: values may be in quotes.

    Spark reads one line and takes no notice of what follows it. So a last field is added to the text, which must be
    there when Spark has read the line.
    """
    schema = form.columns
    corrupt, end = _CORRUPT, _END
    while corrupt.lower() in map(str.lower, schema.names):
        corrupt += "_"
    while end.lower() in map(str.lower, schema.names):
        end += "_"
    # Spark ends the query, and shows the text, if there are more fields than its parser has place for.
    options = {**_options(form, corrupt), "sep": form.separator, "maxColumns": str(_MOST_SEPARATORS + 2)}
    shorter = F.length(F.replace(text, F.lit(form.separator), F.lit("")))
    separators = (F.length(text) - shorter) / len(form.separator)
    too_many = (F.length(text) > _MOST_SEPARATORS) & (separators > _MOST_SEPARATORS)
    ended = F.when(~too_many, F.concat(text, F.lit(form.separator + _END)))
    # Decimals are read as texts first: their numbers may be wild. Spark's csv takes 1,234.5.
    first = [f for f in schema.fields if f.dataType.typeName() == "decimal"]
    columns = [
        cast_of(form, F.replace(read[f.name], F.lit(","), F.lit("")), f) if f in first else read[f.name]
        for f in schema.fields
    ]
    misfits = (_misfit(f, read[f.name], column) for f, column in zip(schema.fields, columns, strict=True) if f in first)
    names = [f"c{number}" for number in range(len(columns))]
    texts = F.from_csv(ended, ", ".join(f"{name} STRING" for name in (*names, end, corrupt)), options)
    beyond = [
        F.when(_is_beyond(read[f.name], texts[name]), _not_of_type(f))
        for name, f in zip(names, schema.fields, strict=True)
        if f.dataType.typeName() in ("float", "double")
    ]
    broken = F.coalesce(
        F.when(F.rlike(ended, F.lit(r"[\r\n]")) & texts[corrupt].isNotNull(), "the text has several lines"),
        F.when(texts[corrupt].isNotNull(), f"the number of fields is not {len(schema)}"),
        *map(_misfit, schema.fields, [texts[name] for name in names], columns),
        F.lit("a value is not of its type"),
    )
    fault = F.coalesce(
        F.when(too_many, f"the text has more than {_MOST_SEPARATORS} separators"),
        F.when(read[corrupt].isNotNull(), broken),
        F.when(F.coalesce(read[end] != _END, F.lit(True)), "the text is not csv"),
        *misfits,
        *beyond,
        *_limits(schema, columns),
    )
    added = [StructField(end, StringType()), StructField(corrupt, StringType())]
    own = [StructField(f.name, StringType() if f in first else f.dataType) for f in schema.fields]
    wanted = StructType([*own, *added])
    return Reading(F.from_csv(ended, _ddl(wanted), options), _named(schema, columns), fault)


def _split(form: RecordFormat, text: Column, read: Column) -> Reading:
    """kv, and csv without quotes: with an escape character Spark's csv has them. `read` has the columns' texts."""
    schema = form.columns
    if form.kind == "csv":
        split = fields_of(text, form.separator, form.escape)
        texts = [F.get(read, F.lit(place)) for place in range(len(schema))]
        faults = [F.when(F.size(read) != len(schema), f"the number of fields is not {len(schema)}")]
    else:
        split = pairs_of(text, form.separator, form.kv_separator, form.escape)
        # The list of each field, of a list of structs.
        keys, values = read["key"], read["value"]
        texts = [
            F.get(values, F.nullif(F.array_position(keys, F.lit(name)), F.lit(0)).cast("int") - 1)
            for name in schema.names
        ]
        faults = [
            F.when(F.exists(keys, lambda key: key.isNull()), f"a part has no {form.kv_separator}"),
            F.when(F.size(F.array_distinct(keys)) < F.size(keys), "a key is there twice"),
        ]
    null = F.lit(form.options.get("nullValue", ""))
    given = [F.when((one != "") & (one != null), one) for one in texts]
    columns = [cast_of(form, one, field) for one, field in zip(given, schema.fields, strict=True)]
    fault = F.coalesce(*fault_of_escapes(text, form.escape), *faults, *faults_of(schema, given, columns))
    return Reading(split, _named(schema, columns), fault)


def cast_of(form: RecordFormat, text: Column, field: StructField) -> Column:
    """A field's text as its column; null if it does not fit."""
    kind = field.dataType.typeName()
    if kind == "decimal":
        return F.when(~F.rlike(text, F.lit(WILD_NUMBER)), text).try_cast(field.dataType)
    if kind in ("float", "double"):
        number = text.try_cast(field.dataType)
        return F.when(~_is_beyond(number, text), number)
    if kind in ("timestamp", "date") and f"{kind}Format" in form.options:
        # As JSON has it: with a format, Spark's functions for times end the query at a year beyond its timestamps.
        as_json = F.to_json(F.struct(text.alias(field.name)))
        return F.from_json(as_json, _nullable(StructType([field])), _options(form, _CORRUPT))[field.name]
    return text.try_cast(field.dataType)


def faults_of(schema: StructType, texts: Sequence[Column], columns: Sequence[Column]) -> Iterator[Column]:
    """What is wrong with columns that were cast of these texts."""
    yield from map(_misfit, schema.fields, texts, columns)
    yield from _limits(schema, columns)


def _is_beyond(number: Column, text: Column) -> Column:
    """Whether Spark made infinity of a text that is no word for it."""
    return (F.abs(number) == F.lit(math.inf)) & F.rlike(text, F.lit(r"\d"))


_CORRUPT: Final = "_corrupt_record"
_LIST: Final = "__tubeclient_list"
_END: Final = "__tubeclient_end"
"""Names that no record has by accident."""

_MOST_SEPARATORS: Final = 250_000
"""Of a csv text. Spark's parser has 8 bytes for each, in each task."""


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType) for field in schema.fields])


def _ddl(schema: StructType) -> str:
    """from_csv takes no StructType."""
    return ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in schema.fields)


def _options(form: RecordFormat, corrupt: str) -> dict[str, str]:
    fixed = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt, "enableDateTimeParsingFallback": "false"}
    return {**form.options, **fixed}


def _named(schema: StructType, columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(column.alias(name) for column, name in zip(columns, schema.names, strict=True))


def _misfit(field: StructField, text: Column, column: Column) -> Column:
    return F.when(text.isNotNull() & column.isNull(), _not_of_type(field))


def _not_of_type(field: StructField) -> str:
    return f"the value of {field.name} is not of type {field.dataType.simpleString()}"


def _years(name: str, kind: DataType, column: Column) -> Iterator[Column]:
    if kind.typeName() in ("date", "timestamp", "timestamp_ntz"):
        # Others than Spark cannot read a Delta table that has one such value: its log says them as text.
        yield F.when(~F.year(column).between(1, 9999), f"{name} is not of the years 1 to 9999")
    elif isinstance(kind, StructType):  # lists and maps are not in Delta's log
        for one in kind.fields:
            yield from _years(f"{name}.{one.name}", one.dataType, column[one.name])


def _limits(schema: StructType, columns: Sequence[Column]) -> Iterator[Column]:
    """What a column of the target may not have, though it is of its type."""
    for field, column in zip(schema.fields, columns, strict=True):
        yield from _years(field.name, field.dataType, column)
        if not field.nullable:
            yield F.when(column.isNull(), f"{field.name} is NOT NULL and has no value")
