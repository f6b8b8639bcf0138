"""Integers of JSON that Spark takes for a value of a column's type, and makes another value of: Spark's expressions.

Seconds are multiplied, and bytes cut to eight bits, without a look at what becomes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["has_far", "integers_of", "may_have_far"]


class _Bounds(NamedTuple):
    least: int
    most: int
    seen: str
    """What the text has of any integer beyond that Spark takes. A regular expression."""


_MOST_SECONDS: Final = (1 << 63) // 1_000_000
_BOUNDS: Final = {
    # Microseconds in 64 bits.
    "timestamp": _Bounds(-_MOST_SECONDS, _MOST_SECONDS, r"\d{13}"),
    "byte": _Bounds(-128, 127, r"(?<!\d)(?:12[89]|1[3-9]\d|2[0-5]\d)(?!\d)"),
}
"""By Spark's names of types."""


def integers_of(schema: StructType) -> StructType:
    """The columns and fields whose integers may be beyond their type, to be read as VARIANT; no others."""
    found = _with_variants(schema)
    return found if isinstance(found, StructType) else StructType([])


def may_have_far(text: Column, schema: StructType) -> Column:
    """Whether the text has such digits at all."""
    kinds = {kind for field in schema.fields for kind in _kinds(field.dataType)}
    return F.rlike(text, F.lit("|".join(_BOUNDS[kind].seen for kind in sorted(kinds))))


def has_far(value: Column, kind: DataType) -> Column:
    """Whether a value, read as `integers_of` has it, has an integer beyond its `kind`; never null."""
    name = kind.typeName()
    if name in _BOUNDS:
        # A text of digits is a time as the format has it.
        is_integer = F.schema_of_variant(value) == "BIGINT"
        far = is_integer & ~F.try_variant_get(value, "$", "bigint").between(_BOUNDS[name].least, _BOUNDS[name].most)
    elif isinstance(kind, StructType):
        far = reduce(or_, (has_far(value[f.name], f.dataType) for f in kind.fields if _kinds(f.dataType)))
    elif isinstance(kind, ArrayType):
        far = F.exists(value, _has(kind.elementType))
    else:
        assert isinstance(kind, MapType)
        far = F.exists(F.map_values(value), _has(kind.valueType))
    return F.coalesce(far, F.lit(False))


def _has(kind: DataType) -> Callable[[Column], Column]:
    return lambda value: has_far(value, kind)


def _kinds(kind: DataType) -> set[str]:
    """The types within `kind` that have bounds."""
    if isinstance(kind, StructType):
        return {name for field in kind.fields for name in _kinds(field.dataType)}
    if isinstance(kind, ArrayType):
        return _kinds(kind.elementType)
    if isinstance(kind, MapType):
        return _kinds(kind.valueType)
    return {kind.typeName()} & _BOUNDS.keys()


def _with_variants(kind: DataType) -> DataType:
    """`kind` with VARIANT for each type with bounds, and without the fields that have none."""
    if isinstance(kind, StructType):
        fields = [field for field in kind.fields if _kinds(field.dataType)]
        return StructType([StructField(field.name, _with_variants(field.dataType)) for field in fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_with_variants(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _with_variants(kind.valueType))
    return VariantType()
