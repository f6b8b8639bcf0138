"""Decimals of which Java would compute all digits: for minutes, or until memory runs out. Regular expressions of Java.

They are found in texts as they come. There a digit may be one of any script, which Java takes, and JSON's strings may
have each character as an escape.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

__all__ = ["VERY_MANY_DIGITS", "WILD_EXPONENT", "WILD_NUMBER"]


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
