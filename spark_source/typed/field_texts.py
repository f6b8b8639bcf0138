"""Texts with separators and an escape character, as InLong writes csv and kv: Spark's expressions that split them.

The escape character takes its meaning from the character that follows, whichever that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


def up_to(separator: str, escape: str | None) -> str:
    """A regular expression of Java and Python: as much as there is before the next separator that is not escaped.

    Its repetitions are possessive. Java runs those as loops, and others by recursion, which long texts end.
    """
    if escape is None:
        return f"[^{_in_class(separator)}]*+"
    own = f"[^{_in_class(separator)}{_in_class(escape)}]*+"
    return f"{own}(?:{re.escape(escape)}.{own})*+"


def fields_of(text: Column, separator: str, escape: str | None) -> Column:
    """The texts between the separators: array<string>."""
    return F.transform(_parts(text, separator, escape), lambda part: _plain(part, escape))


def pairs_of(text: Column, separator: str, kv_separator: str, escape: str | None) -> Column:
    """Keys and values: array<struct<key, value>>. Parts without a text are left out; the key is null in a part without
    the second separator."""
    pattern = f"(?s)^({up_to(kv_separator, escape)}){re.escape(kv_separator)}(.*)$"

    def pair(part: Column) -> Column:
        key = F.when(F.rlike(part, F.lit(pattern)), _plain(F.regexp_extract(part, pattern, 1), escape))
        return F.struct(key.alias("key"), _plain(F.regexp_extract(part, pattern, 2), escape).alias("value"))

    return F.transform(F.filter(_parts(text, separator, escape), lambda part: part != ""), pair)


def fault_of_escapes(text: Column, escape: str | None) -> Iterator[Column]:
    """What is wrong with the escapes of a text; null if nothing is."""
    if escape is not None:
        whole = f"(?s)^(?:[^{_in_class(escape)}]|{re.escape(escape)}.)*+$"
        yield F.when(~F.rlike(text, F.lit(whole)), f"the text ends with the escape character {escape}")


def _parts(text: Column, separator: str, escape: str | None) -> Column:
    # Each part is taken with the separator behind it, so that an empty one is a match as well.
    pattern = f"(?s)({up_to(separator, escape)}){re.escape(separator)}"
    return F.regexp_extract_all(F.concat(text, F.lit(separator)), F.lit(pattern), 1)


def _plain(part: Column, escape: str | None) -> Column:
    return part if escape is None else F.regexp_replace(part, f"(?s){re.escape(escape)}(.)", "$1")


def _in_class(character: str) -> str:
    return f"\\{character}" if character in "\\]^-[&" else character
