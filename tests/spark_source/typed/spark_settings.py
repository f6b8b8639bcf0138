"""Which settings Spark's own classes read when they parse records, from the class files of its jars."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyspark

__all__ = ["entries_of_parsing"]

_PARSING: Final = re.compile(r"org/apache/spark/sql/(catalyst/(json|csv|util|expressions|parser)|types)/")
_CONF: Final = "org/apache/spark/sql/internal/SQLConf"
_API: Final = "org/apache/spark/sql/internal/SqlApiConf"
_INVOKES: Final = re.compile(rb"(?=[\xb6-\xb9](..))", re.DOTALL)
"""Instructions of the JVM that call a method; its place in the constant pool follows."""


def entries_of_parsing() -> set[str]:
    """The names of SQLConf's entries (`ANSI_ENABLED`) which they read, by themselves or by one of its methods."""
    called: set[str] = set()
    methods: dict[str, set[str]] = {}
    jars = Path(pyspark.__file__).parent / "jars"
    for jar in (*jars.glob("spark-catalyst_*.jar"), *jars.glob("spark-sql-api_*.jar")):
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                if name == f"{_CONF}.class":
                    methods = dict(_methods(classes.read(name)))
                elif name.endswith(".class") and _PARSING.match(name):
                    called |= _called(_constants(classes.read(name))[0])
    seen: set[str] = set()
    while called - seen:
        seen |= called
        called = {one for name in called for one in methods.get(name, {name})}
    return {name for name in seen if name == name.upper()}


def _called(constants: list[Any]) -> set[str]:
    """The methods of SQLConf among a class's constants."""
    return {found for place in range(len(constants)) if (found := _method(constants, place)) is not None}


def _method(constants: list[Any], place: int) -> str | None:
    found = constants[place] if place < len(constants) else None
    if not isinstance(found, tuple) or found[0] not in (10, 11):
        return None
    owner, name = constants[constants[found[1]][1]], constants[constants[found[2]][1]]
    return name if owner.removesuffix("$") in (_CONF, _API) else None


def _methods(data: bytes) -> Iterator[tuple[str, set[str]]]:
    """Each method of SQLConf, and those of its methods that it calls."""
    constants, at = _constants(data)
    at += 6
    at += 2 + 2 * _short(data, at)
    for _ in range(2):  # fields, then methods
        count, at = _short(data, at), at + 2
        for _ in range(count):
            name, attributes, at = constants[_short(data, at + 2)], _short(data, at + 6), at + 8
            for _ in range(attributes):
                length = struct.unpack(">I", data[at + 2 : at + 6])[0]
                code = data[at + 6 : at + 6 + length]
                if constants[_short(data, at)] == "Code":
                    places = (_short(one[1], 0) for one in _INVOKES.finditer(code))
                    yield name, {found for place in places if (found := _method(constants, place)) is not None}
                at += 6 + length


def _constants(data: bytes) -> tuple[list[Any], int]:
    """The constant pool of a class file, and where it ends."""
    count, at = _short(data, 8), 10
    found: list[Any] = [None] * count
    place = 1
    while place < count:
        tag = data[at]
        if tag == 1:
            length = _short(data, at + 1)
            found[place] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        elif tag in (7, 8, 16, 19, 20):
            found[place], at = (tag, _short(data, at + 1)), at + 3
        elif tag == 15:
            at += 4
        else:
            found[place], at = (tag, _short(data, at + 1), _short(data, at + 3)), at + (9 if tag in (5, 6) else 5)
            place += tag in (5, 6)
        place += 1
    return found, at


def _short(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")
