"""Numbers that Spark must not read.

Far ones, in JSON: Spark takes them for a value of a column's type, and makes another value of them. Seconds are
multiplied, bytes cut to eight bits, large floats made infinite.

Wild ones: decimals of which Java would compute all digits, for minutes, or until memory runs out. They are found in
texts as they come. There a digit may be one of any script, which Java takes, and JSON's strings may have each character
as an escape.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["VERY_MANY_DIGITS", "WILD_EXPONENT", "WILD_NUMBER", "has_far", "numbers_of", "suspect_text"]


class _Bounds(NamedTuple):
    least: float
    most: float
    seen: str
    """What the text has of any number beyond that Spark takes. A regular expression."""


_LARGE: Final = r"(?<=[-:,\[\s])[\d.]++[eE]\+?\d\d|\d{30}"
_MOST_AS_FLOAT: Final = math.nextafter(2.0**128 - 2.0**103, 0)
_BOUNDS: Final = {
    # Seconds of the years 1 to 9999. Spark has more, of which it multiplies some beyond 64 bits.
    "timestamp": _Bounds(-62_135_596_800, 253_402_300_799, r"\d{12}"),
    "byte": _Bounds(-128, 127, r"(?<!\d)(?:12[89]|1[3-9]\d|2[0-5]\d)(?!\d)"),
    "float": _Bounds(-_MOST_AS_FLOAT, _MOST_AS_FLOAT, _LARGE),
    "double": _Bounds(-sys.float_info.max, sys.float_info.max, _LARGE),
}
"""By Spark's names of types."""
_NO_NUMBERS: Final = "[+-]?(?:Infinity|INF|NaN)"
"""Words that JSON may have for numbers."""


def numbers_of(schema: StructType) -> StructType:
    """The columns and fields whose numbers may be beyond their type, to be read as VARIANT; no others."""
    found = _with_variants(schema)
    return found if isinstance(found, StructType) else StructType([])


def suspect_text(text: Column, schema: StructType) -> Column:
    """The text to read as `numbers_of` has it; null if it has no such digits at all."""
    kinds = {kind for field in schema.fields for kind in _kinds(field.dataType)}
    seen = "|".join(sorted({_BOUNDS[kind].seen for kind in kinds}))
    return F.when(F.rlike(text, F.lit(seen)), F.regexp_replace(text, _NO_NUMBERS, "0"))


def has_far(value: Column, kind: DataType) -> Column:
    """Whether a value, read as `numbers_of` has it, has a number beyond its `kind`; never null."""
    name = kind.typeName()
    if name in _BOUNDS:
        # A text of digits is a time as the format has it.
        number = F.when(F.schema_of_variant(value) != "STRING", F.try_variant_get(value, "$", "double"))
        far = ~number.between(_BOUNDS[name].least, _BOUNDS[name].most)
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


def _escaped(characters: Iterable[str]) -> str:
    """Any of these characters as JSON's escape with four hexadecimal digits."""
    by_start: dict[str, str] = {}
    for character in characters:
        code = f"{ord(character):04x}"
        by_start[code[:3]] = by_start.get(code[:3], "") + code[3]
    codes = "|".join(f"{start}[{ends}]" for start, ends in by_start.items())
    return rf"(?i:(?<!\\)\\u(?:{codes}))"  # behind a backslash it is none


_EXPONENT_MARKS: Final = "eE^"
_SIGNS: Final = "+-\u2212"
"""Some locales write 10^3 for e3, with a minus sign of their own."""
_DIGITS: Final = [one for one in map(chr, range(0x10000)) if unicodedata.category(one) == "Nd"]

# Spark's option allowBackslashEscapingAnyCharacter allows a backslash before each.
_DIGIT: Final = rf"(?:\\?+\p{{Nd}}|{_escaped(_DIGITS)})"
_ZERO: Final = rf"(?:\\?+0|{_escaped('0')})"
_SIGN: Final = rf"(?:\\?+[+\-\u2212]|{_escaped(_SIGNS)})"
# Repetitions are possessive: Java runs those as loops, and others by recursion, which long texts end.
WILD_EXPONENT: Final = rf"(?:[eE^]|{_escaped(_EXPONENT_MARKS)}){_SIGN}?+{_ZERO}*+{_DIGIT}{{4,}}+"
VERY_MANY_DIGITS: Final = rf"(?<!\p{{Nd}}){_DIGIT}{{1000,}}+"
WILD_NUMBER: Final = rf"{WILD_EXPONENT}|^.{{1000}}"
"""The same in the text of one number."""
