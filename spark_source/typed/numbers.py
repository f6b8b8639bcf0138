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
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

if TYPE_CHECKING:
    from pyspark.sql import Column


_MOST_AS_FLOAT: Final = math.nextafter(2.0**128 - 2.0**103, 0)
_BOUNDS: Final = {
    # Seconds of the years 1 to 9999. Spark has more, of which it multiplies some beyond 64 bits.
    "timestamp": (-62_135_596_800, 253_402_300_799),
    "byte": (-128, 127),
    "float": (-_MOST_AS_FLOAT, _MOST_AS_FLOAT),
    "double": (-sys.float_info.max, sys.float_info.max),
}
"""The least and the most, by Spark's names of types."""
_SEEN: Final = r"\d{12}|(?<=[-:,\[\s])[\d.]++[eE]\+?\d\d"
_SEEN_OF_BYTES: Final = r"(?<!\d)(?:12[89]|1[3-9]\d|2[0-5]\d)(?!\d)"
"""What the text has of any number beyond its type that Spark takes. Regular expressions."""
_NO_NUMBERS: Final = "[+-]?(?:Infinity|INF|NaN)"
"""Words that JSON may have for numbers."""


def numbers_of(kind: DataType) -> DataType | None:
    """`kind` with VARIANT for each type with bounds, and without the fields that have none; None if it has none."""
    if isinstance(kind, StructType):
        found = [(field.name, numbers_of(field.dataType)) for field in kind.fields]
        fields = [StructField(name, one) for name, one in found if one is not None]
        return StructType(fields) if fields else None
    if isinstance(kind, ArrayType):
        of_elements = numbers_of(kind.elementType)
        return None if of_elements is None else ArrayType(of_elements)
    if isinstance(kind, MapType):
        of_values = numbers_of(kind.valueType)
        return None if of_values is None else MapType(kind.keyType, of_values)
    return VariantType() if kind.typeName() in _BOUNDS else None


def suspect_text(text: Column, schema: StructType) -> Column:
    """The text to read as `numbers_of` has it; null if it has no such digits at all."""
    seen = f"{_SEEN}|{_SEEN_OF_BYTES}" if "tinyint" in schema.simpleString() else _SEEN
    return F.when(F.rlike(text, F.lit(seen)), F.regexp_replace(text, _NO_NUMBERS, "0"))


def has_far(value: Column, kind: DataType) -> Column:
    """Whether a value, read as `numbers_of` has it, has a number beyond its `kind`; never null."""
    name = kind.typeName()
    if name in _BOUNDS:
        # A text of digits is a time as the format has it.
        number = F.when(F.schema_of_variant(value) != "STRING", F.try_variant_get(value, "$", "double"))
        far = ~number.between(*_BOUNDS[name])
    elif isinstance(kind, StructType):
        fields = [field for field in kind.fields if numbers_of(field.dataType) is not None]
        far = reduce(or_, (has_far(value[field.name], field.dataType) for field in fields))
    elif isinstance(kind, ArrayType):
        far = F.exists(value, lambda one: has_far(one, kind.elementType))
    else:
        assert isinstance(kind, MapType)
        far = F.exists(F.map_values(value), lambda one: has_far(one, kind.valueType))
    return F.coalesce(far, F.lit(False))


# Where JSON may have a digit, an exponent's mark or a sign as an escape: of those of all scripts, as Java takes them.
_ESCAPE: Final = r"(?<!\\)\\u[01aAfF][0-9a-fA-F]{3}"
_DIGIT: Final = rf"(?:\p{{Nd}}|{_ESCAPE})"
# Repetitions are possessive: Java runs those as loops, and others by recursion, which long texts end.
WILD_EXPONENT: Final = rf"(?:[eE]|{_ESCAPE})(?:[+-]|{_ESCAPE})?+{_DIGIT}{{4,}}+"
VERY_MANY_DIGITS: Final = rf"(?<!\p{{Nd}}){_DIGIT}{{1000,}}+"
WILD_NUMBER: Final = rf"{WILD_EXPONENT}|^.{{1000}}"
"""The same in the text of one number."""
