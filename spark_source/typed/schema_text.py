"""What is surely wrong in a schema's text, told without Spark's parser, which needs a running JVM. Pure.

It takes more than Spark does: whatever it does not know for sure is left to Spark. Nothing that Spark takes is refused.
"""

from __future__ import annotations

import difflib
import re
from typing import Final, NamedTuple, NoReturn

__all__ = ["schema_fault"]

_SIMPLE: Final = (
    *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("decimal", "dec", "numeric", "string", "char", "character", "varchar", "binary", "date", "time", "timestamp"),
    *("timestamp_ntz", "timestamp_ltz", "interval", "void", "variant", "geometry", "geography"),
)
"""Spark's names of types. One that a later Spark adds is none that records have either (`RecordFormat`)."""
_NESTED: Final = {"array": "ARRAY<INT>", "map": "MAP<STRING, INT>", "struct": "STRUCT<a: INT>"}

_AFTER_TYPE: Final = ("with", "without")
"""What may come between a column's type and another word that is a name of a type."""

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>--(?:\\\n|[^\r\n])*)
    |(?P<string>'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*")
    |(?P<quoted>`(?:``|[^`])*`)
    |(?P<word>\w+(?!['"\w]))
    |(?P<sign>[<>(),:.!-])""",
    re.DOTALL | re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str


_END: Final = _Token("end", "")


class _Fault(Exception):
    """The text is surely wrong; why is the exception's text."""


class _LeftToSpark(Exception):
    """The text has something that is not known here."""


def schema_fault(ddl: str) -> str | None:
    """Why Spark will not take `ddl` as columns, in words that follow a colon. None: it may take it."""
    try:
        _Parser(ddl).schema()
    except _Fault as fault:
        return str(fault)
    except (_LeftToSpark, RecursionError):
        pass
    return None


class _Parser:
    def __init__(self, ddl: str) -> None:
        self._tokens: list[_Token] = []
        self._at = 0
        self._has_comment = False
        place = 0
        while place < len(ddl):
            found = _TOKEN.match(ddl, place)
            if found is None:
                raise _LeftToSpark
            place = found.end()
            kind = str(found.lastgroup)
            self._has_comment |= kind == "comment"
            if kind in ("string", "quoted", "word", "sign"):
                self._tokens.append(_Token(kind, found[0]))

    def schema(self) -> None:
        self._columns()
        if self._next().text == ">":
            self._unbalanced("there is a > without its <")
        if self._next() != _END:
            raise _LeftToSpark

    def _columns(self) -> None:
        name = self._column("")
        while self._next().text == ",":
            self._take()
            name = self._column(name)

    def _column(self, before: str) -> str:
        """The name of the column that is here; `before` is that of the one before the comma."""
        name = self._take()
        if before and (name == _END or name.text in (",", ">")):
            raise _Fault(f"there is no column after the comma behind {before}")
        if name.kind not in ("word", "quoted"):
            raise _LeftToSpark
        follows = self._next()
        if follows.text == ":":
            self._take()
        elif follows.text in ("<", "("):
            # A type instead of columns, or a name that is computed.
            raise _LeftToSpark
        elif follows.text in ("-", "."):
            raise _Fault(f"the name {name.text}{follows.text}... must be in backticks, as in `a{follows.text}b` INT")
        self._type(name.text)
        self._rest(name.text)
        return name.text

    def _type(self, column: str) -> None:
        kind = self._take()
        if kind == _END or kind.text in (",", ">", ")"):
            raise _Fault(f"column {column} has no type")
        if kind.kind != "word":
            raise _LeftToSpark
        word = kind.text.lower()
        if word in _NESTED:
            self._nested(column, word)
        elif word not in _SIMPLE:
            near = difflib.get_close_matches(word, (*_SIMPLE, *_NESTED), n=1)
            asked = f"; did you mean {near[0].upper()}?" if near else ""
            raise _Fault(f"column {column} has the type {kind.text}, which Spark does not have{asked}")
        elif self._next().text == "(":
            self._skip_parameters(column)

    def _nested(self, column: str, word: str) -> None:
        if self._take().text != "<":
            raise _Fault(f"the type of column {column} is {word.upper()} of nothing; write it as in {_NESTED[word]}")
        if word == "struct":
            if self._next().text != ">":
                self._columns()
        else:
            self._type(column)
            if word == "map" and self._next().text == ",":
                self._take()
                self._type(column)
        closing = self._take()
        if closing == _END or (closing.text == "," and word != "struct"):
            self._unbalanced(f"a < in the type of column {column} has no >")
        if closing.text != ">":
            raise _LeftToSpark

    def _skip_parameters(self, column: str) -> None:
        while (token := self._take()).text != ")":
            if token == _END:
                self._unbalanced(f"a ( in the type of column {column} has no )")

    def _rest(self, column: str) -> None:
        """What follows a type: NOT NULL, COMMENT and the like."""
        word, then = self._next(), self._next(1)
        if word.kind == then.kind == "word" and word.text.lower() not in _AFTER_TYPE and _is_type(then.text):
            raise _Fault(f"there is no comma between column {column} and {word.text} {then.text}")
        while (token := self._next()) != _END and token.text not in (",", ">"):
            if token.text in ("<", "(", ")"):
                raise _LeftToSpark
            self._take()

    def _unbalanced(self, said: str) -> NoReturn:
        if self._has_comment:
            # Spark also tries the text within STRUCT<...>; a comment then hides what was put behind it.
            raise _LeftToSpark
        raise _Fault(said)

    def _next(self, ahead: int = 0) -> _Token:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else _END

    def _take(self) -> _Token:
        token = self._next()
        self._at += 1
        return token


def _is_type(word: str) -> bool:
    return word.lower() in _SIMPLE or word.lower() in _NESTED
