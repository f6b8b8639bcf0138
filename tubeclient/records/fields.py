"""csv and kv: texts between separators, in quotes or with an escape character, to rows.

In csv with quotes a value may be in quotes, where a doubled quote is a quote (RFC 4180), as is one behind the option
escape's character, which Spark writes. In csv without quotes and in kv the escape character takes its meaning from the
next character, whichever that is: so InLong writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from tubeclient.errors import ConfigurationError
from tubeclient.records.fault import BadRecord
from tubeclient.records.json_rows import rescued
from tubeclient.records.json_text import quoted
from tubeclient.records.spec import RESCUED, Column, RecordSpec, flag
from tubeclient.records.values import SPACES, Values, missing

MOST_SEPARATORS: Final = 250_000

Reader: TypeAlias = Callable[[str], dict[str, Any]]
"""Gives the row of a record's text. BadRecord: it is none."""


class _Field(NamedTuple):
    """A field's text without quotes and escapes."""

    text: str
    pos: int
    """Where it begins in the record's text."""
    is_quoted: bool = False


def csv_reader(spec: RecordSpec, columns: Sequence[Column]) -> Reader:
    """How csv is read. ConfigurationError: separator and quote cannot be told apart."""
    values, null = Values(spec), spec.options.get("nullValue", "")
    keeps_empty = spec.has_quotes and null != ""
    split = _QuotedCsv(spec) if spec.has_quotes else _Escaped("separator", spec.separator, spec.escape).fields

    def read(text: str) -> dict[str, Any]:
        _check_count(text, spec.separator)
        fields = list(islice(split(text), len(columns) + 1))  # of many more, none is made
        if len(fields) != len(columns):
            raise BadRecord(f"the number of fields is not {len(columns)}")
        row = {}
        for field, column in zip(fields, columns, strict=True):
            # An empty text in quotes is a text, if there is another way to write null.
            is_null = field.text == null or (not field.text and not (keeps_empty and field.is_quoted))
            if is_null and column.required:
                raise missing(column)
            row[column.name] = None if is_null else values.of_text(field.text, column, column.name, field.pos)
        return row

    return read


def kv_reader(spec: RecordSpec, columns: Sequence[Column]) -> Reader:
    """How kv is read. Keys that no column has are left out or rescued, and columns without a key are null."""
    if spec.separator == spec.kv_separator:
        raise ConfigurationError("separator and kvSeparator must be different characters")
    values, null = Values(spec), spec.options.get("nullValue", "")
    pairs = _Escaped("separator", spec.separator, spec.escape)
    halves = _Escaped("kvSeparator", spec.kv_separator, spec.escape)
    wanted = {column.name: column for column in columns if column.kind != "rescued"}
    has_rescued = len(wanted) < len(columns)

    def read(text: str) -> dict[str, Any]:
        _check_count(text, spec.separator)
        row: dict[str, Any] = dict.fromkeys(wanted)
        seen = set()
        left = []
        for start, part in pairs.parts(text):
            if not part:
                continue
            end = halves.end(part)
            if end == len(part):
                raise BadRecord(f"a part has no {spec.kv_separator}", start)
            key, value = halves.plain(part[:end]), halves.plain(part[end + 1 :])
            column = wanted.get(key)
            if column is None:
                left.append((key, quoted(value)))
                continue
            if key in seen:
                raise BadRecord(f"{key} appears twice", start)
            seen.add(key)
            if value not in ("", null):
                try:
                    row[key] = values.of_text(value, column, key, start + end + 1)
                except BadRecord:
                    if not values.rescues(column):
                        raise
                    left.append((key, quoted(value)))
        for column in wanted.values():
            if column.required and row[column.name] is None:
                raise missing(column)
        return row if not has_rescued else {**row, RESCUED: rescued(left)}

    return read


def _check_count(text: str, separator: str) -> None:
    if len(text) > MOST_SEPARATORS and text.count(separator) > MOST_SEPARATORS:
        raise BadRecord(f"the text has more than {MOST_SEPARATORS} separators")


class _Escaped:
    """Texts between separators of one character, of which an escaped one separates nothing."""

    def __init__(self, name: str, separator: str, escape: str | None) -> None:
        for setting, text in ((name, separator), ("escape", escape)):
            if text is not None and len(text) != 1:
                raise ConfigurationError(f"{setting} is {text!r}; it must be one character")
        if escape == separator:
            raise ConfigurationError(f"{name} and escape must be different characters")
        self._separator = separator
        self._escape = escape
        # Possessive, so a long text is a loop without a stack.
        own = rf"[^{re.escape(separator)}{re.escape(escape or separator)}]*+"
        escaped = "" if escape is None else rf"(?:{re.escape(escape)}.{own})*+"
        self._up_to = re.compile(own + escaped, re.DOTALL).match
        self._escaping = re.compile(re.escape(escape or "") + "(.)", re.DOTALL)

    def fields(self, text: str) -> Iterator[_Field]:
        """The texts, without escapes."""
        return (_Field(self.plain(part), start) for start, part in self.parts(text))

    def parts(self, text: str) -> Iterator[tuple[int, str]]:
        """Where each text begins, and the text with its escapes. BadRecord: the last character is an escape without
        another one behind it."""
        start = 0
        while True:
            end = self.end(text, start)
            yield start, text[start:end]
            if end == len(text):
                return
            start = end + 1

    def end(self, text: str, start: int = 0) -> int:
        """Where the text that begins at `start` ends: at the next separator, or with the whole."""
        found = self._up_to(text, start)
        end = start if found is None else found.end()
        if end < len(text) and text[end] == self._escape:
            raise BadRecord(f"the text ends with the escape character {self._escape}", end)
        return end

    def plain(self, part: str) -> str:
        """A text without its escapes."""
        return part if self._escape is None or self._escape not in part else self._escaping.sub(r"\1", part)


class _QuotedCsv:
    """Splits one line of csv whose values may be in quotes, with Spark's options."""

    def __init__(self, spec: RecordSpec) -> None:
        options = spec.options
        self._separator = spec.separator
        self._quote = options.get("quote", '"')
        escape = options.get("escape", "")
        of_escape = options.get("charToEscapeQuoteEscaping", escape if escape != self._quote else "")
        self._empty = options.get("emptyValue", "")
        self._sheds = tuple(flag(options, f"ignore{side}WhiteSpace") for side in ("Leading", "Trailing"))
        if len(self._quote) != 1 or len(escape) > 1 or len(of_escape) > 1:
            raise ConfigurationError("quote, escape and charToEscapeQuoteEscaping of csv must be single characters")
        if not self._separator or self._quote in self._separator:
            raise ConfigurationError(f"csv cannot have the separator {self._separator!r} and the quote {self._quote!r}")
        self._is_line = not set(self._separator) & set("\r\n")
        quote = re.escape(self._quote)
        pairs = [
            self._quote * 2,
            *(escape + self._quote for _ in escape),
            *(of_escape + escape for _ in of_escape if escape),
        ]
        either = "|".join(map(re.escape, pairs))
        # What is no pair is itself: also an escape character before any other.
        plain = f"[^{quote}{re.escape(escape)}{re.escape(of_escape)}]++"
        self._body = re.compile(rf"((?:{either}|{plain}|[^{quote}])*+){quote}", re.DOTALL).match
        self._pair = re.compile(either, re.DOTALL)

    def __call__(self, text: str) -> Iterator[_Field]:
        """The fields. BadRecord: a quote is not closed or not the end of its value, or there are several lines."""
        pos = 0
        while True:
            start = pos
            if self._sheds[0]:
                while pos < len(text) and text[pos] in SPACES and not text.startswith(self._separator, pos):
                    pos += 1
            if text.startswith(self._quote, pos):
                field, pos = self._quoted(text, pos)
                yield field
            else:
                end = text.find(self._separator, start)
                pos = len(text) if end < 0 else end
                self._check_line(text[start:pos], start)
                yield self._bare(text[start:pos], start)
            if pos == len(text):
                return
            pos += len(self._separator)

    def _quoted(self, text: str, pos: int) -> tuple[_Field, int]:
        """The value in quotes at `pos`, and where its separator is, or the text's end."""
        found = self._body(text, pos + 1)
        if found is None:
            raise BadRecord("a quote is not closed", pos)
        end = found.end()
        if self._sheds[1]:
            while end < len(text) and text[end] in SPACES and not text.startswith(self._separator, end):
                end += 1
        if end < len(text) and not text.startswith(self._separator, end):
            self._check_line(text[end:].split(self._separator, 1)[0], end)
            raise BadRecord("something follows a closing quote", end)
        body = self._pair.sub(lambda pair: pair[0][1], found[1])
        return _Field(body or self._empty, pos, is_quoted=True), end

    def _bare(self, part: str, pos: int) -> _Field:
        """A value without quotes around it; a quote within is itself."""
        if self._sheds[0]:
            shed = part.lstrip(SPACES)
            part, pos = shed, pos + len(part) - len(shed)
        return _Field(part.rstrip(SPACES) if self._sheds[1] else part, pos)

    def _check_line(self, text: str, pos: int) -> None:
        if self._is_line and ("\n" in text or "\r" in text):
            at = min(found for found in (text.find("\n"), text.find("\r")) if found >= 0)
            raise BadRecord("the text has several lines", pos + at)
