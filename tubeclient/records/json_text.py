"""JSON as it was written: a tree whose numbers are texts, and where each value is in the record.

No recursion: how deep a text goes is bounded by `MOST_DEPTH` and not by Python's stack. Parts that nobody wants are
checked and not kept, so the tree takes memory for what the columns take only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from tubeclient.records.fault import BadRecord
from tubeclient.records.spec import flag

MOST_DEPTH: Final = 500
MOST_DIGITS: Final = 1_000
"""Characters of a number."""
MOST_NAME: Final = 50_000
"""Characters of a name, as it is written."""
MOST_FIELDS: Final = 100_000
"""Fields of one object."""
MOST_VALUES: Final = 1_000_000
"""Values of a record that columns are made of, with those that are missing in lists and rows."""

WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
"""The digits of a whole number, which may be one of 64 bits."""
NOT_JSON: Final = "the text is not JSON"

Shape: TypeAlias = "bool | Mapping[str, Shape]"
"""Which parts of a value are kept. True: all. False: none; the value itself has its position. Names: those fields of an
object, each in its shape, and none of the others; of a list the items, each in this shape."""
POS_ONLY: Final[Mapping[str, Shape]] = MappingProxyType({})
"""The shape of a value of which only the position is kept."""


class Node:
    """A value in a text."""

    __slots__ = ("end", "kind", "start", "value")

    def __init__(self, kind: str, value: Any, start: int, end: int) -> None:
        self.kind = kind
        """null, boolean, number, text, list or object; "" if only its position was kept."""
        self.value = value
        """None, a bool, a number's text, a text, list[Node], or list[tuple[str, Node]] with names as often as they are
        there. Of a list or object that was not kept, an empty one."""
        self.start = start
        self.end = end
        """`text[start:end]` is the value as it was written."""


class Syntax(NamedTuple):
    """What a text may have. Each is a regular expression's `match`, and allows space before it."""

    value: Callable[[str, int], re.Match[str] | None]
    """A scalar, or the bracket with which a list or object begins. Groups: `_TEXT` and those after it."""
    name: Callable[[str, int], re.Match[str] | None]
    """A name with its colon. One group has the name."""
    after: Callable[[str, int], re.Match[str] | None]
    """A comma or a closing bracket."""
    space: Callable[[str, int], re.Match[str] | None]
    """Space, perhaps none."""


_TEXT, _TEXT_IN_SINGLES, _NUMBER, _WORD, _OPENING = range(1, 6)
_WORDS: Final = {"true": ("boolean", True), "false": ("boolean", False), "null": ("null", None)}


def syntax_of(options: Mapping[str, str]) -> Syntax:
    """The syntax with Spark's options for JSON, of which `allowSingleQuotes` and `allowNonNumericNumbers` are on unless
    they are set to false."""
    return _syntax(
        flag(options, "allowSingleQuotes", "true"),
        flag(options, "allowNonNumericNumbers", "true"),
        flag(options, "allowUnquotedFieldNames"),
        flag(options, "allowNumericLeadingZeros"),
        flag(options, "allowUnquotedControlChars"),
        flag(options, "allowComments"),
    )


@cache
def _syntax(singles: bool, words: bool, bare_names: bool, zeros: bool, controls: bool, comments: bool) -> Syntax:
    # Repetitions are possessive (*+): a long text never makes Python's engine go back, or keep a stack.
    space = r"[ \t\n\r]*+" if not comments else r"(?:[ \t\n\r]++|/\*(?s:.)*?\*/|//[^\n\r]*+)*+"
    control = "" if controls else r"\x00-\x1f"

    def body(quote: str) -> str:
        plain = rf"[^{quote}\\{control}]*+"
        escaped = r"""["\\/bfnrt']""" if singles else r'["\\/bfnrt]'
        return rf"({plain}(?:\\(?:{escaped}|u[0-9a-fA-F]{{4}}){plain})*+)"

    never = "((?!))"
    double, single = f'"{body(chr(34))}"', f"'{body(chr(39))}'" if singles else never
    whole = "[0-9]++" if zeros else "(?:0|[1-9][0-9]*+)"
    number = rf"-?{whole}(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
    if words:
        number += r"|NaN|[+-]?(?:Infinity|INF)"
    bare = r"([\w$@#*+-]++)" if bare_names else never
    name = f"(?:{double}|{single}|{bare})"
    return Syntax(
        re.compile(rf"{space}(?:{double}|{single}|({number})|(true|false|null)|([\[{{]))").match,
        re.compile(f"{space}{name}{space}:").match,
        re.compile(rf"{space}([,\]}}])").match,
        re.compile(space).match,
    )


STRICT: Final = _syntax(False, False, False, False, False, False)
"""JSON of RFC 8259, without anything more."""


def parse_object(text: str, syntax: Syntax, shape: Shape = True) -> Node:
    """The JSON object that the text is. BadRecord: it is no JSON, or no object, or something follows."""
    node = parse_value(text, 0, syntax, shape)
    if node.kind != "object":
        raise BadRecord("the text is not a JSON object", node.start)
    if _past_space(text, node.end, syntax) < len(text):
        raise BadRecord("something follows the JSON object", _past_space(text, node.end, syntax))
    return node


class _Open:
    """A list or object whose end has not come yet."""

    __slots__ = ("count", "is_object", "keeps", "name", "parts", "shape", "start")

    def __init__(self, is_object: bool, start: int, shape: Shape) -> None:
        self.is_object = is_object
        self.start = start
        self.shape = shape
        self.parts: list[Any] = []
        self.count = 0
        self.name = ""
        """Of the field whose value comes next."""
        self.keeps = shape is not False
        """Whether the value that comes next is kept."""


def parse_value(text: str, pos: int, syntax: Syntax, shape: Shape = True) -> Node:
    """The JSON value at `pos`, of any kind; its `end` says where it ends. BadRecord: there is none, or it has more of
    something than the bounds allow."""
    opened: list[_Open] = []
    inner = shape  # of the value that comes next
    count = 0
    while True:
        found = syntax.value(text, pos)
        if found is None:
            raise _not_json(text, pos, syntax)
        pos = found.end()
        if found.lastindex != _OPENING:
            _check_number(found)
            keeps = opened[-1].keeps if opened else True
            node = _UNWANTED if not keeps else _scalar(found) if inner is not POS_ONLY else _place_only(found)
        else:
            if len(opened) == MOST_DEPTH:
                raise BadRecord(f"the JSON is deeper than {MOST_DEPTH} levels", pos - 1)
            top = _Open(text[pos - 1] == "{", pos - 1, inner is not POS_ONLY and inner)
            closing = syntax.after(text, pos)
            if closing is None or closing[1] != ("}" if top.is_object else "]"):
                opened.append(top)
                if top.is_object:
                    pos, inner = _name(text, pos, top, syntax)
                continue
            pos = closing.end()
            node = _closed(top, pos)
        # A value is complete, and perhaps it completes those around it.
        while True:
            if not opened:
                return node
            top = opened[-1]
            if top.keeps:
                count += 1
                if count > MOST_VALUES:
                    raise too_many(pos)
                top.parts.append((top.name, node) if top.is_object else node)
            after = syntax.after(text, pos)
            if after is None:
                raise _not_json(text, pos, syntax)
            pos = after.end()
            if after[1] == ",":
                if top.is_object:
                    pos, inner = _name(text, pos, top, syntax)
                else:
                    inner = top.shape
                break
            if top.is_object != (after[1] == "}"):
                raise BadRecord(NOT_JSON, pos - 1)
            node = _closed(opened.pop(), pos)


def too_many(pos: int) -> BadRecord:
    return BadRecord(f"the record has more than {MOST_VALUES} values", pos)


_UNWANTED: Final = Node("null", None, 0, 0)


def _closed(top: _Open, end: int) -> Node:
    return Node("object" if top.is_object else "list", top.parts, top.start, end)


def _name(text: str, pos: int, top: _Open, syntax: Syntax) -> tuple[int, Shape]:
    """Read the next name of an object: where its value begins, and the shape of that."""
    found = syntax.name(text, pos)
    if found is None:
        raise _not_json(text, pos, syntax)
    group = found.lastindex or 0
    start, end = found.span(group)
    if end - start > MOST_NAME:
        raise BadRecord(f"a name has more than {MOST_NAME} characters", start)
    top.count += 1
    if top.count > MOST_FIELDS:
        raise BadRecord(f"an object has more than {MOST_FIELDS} fields", start)
    if top.shape is False:
        return found.end(), False
    name = _unescaped(found[group], start)
    if top.shape is True:
        top.name = name
        return found.end(), True
    shape = top.shape.get(name)
    top.keeps = shape is not None
    top.name = name
    return found.end(), False if shape is None else shape


def _scalar(found: re.Match[str]) -> Node:
    group = found.lastindex or 0
    start, end = found.span(group)
    if group <= _TEXT_IN_SINGLES:
        return Node("text", _unescaped(found[group], start), start - 1, end + 1)
    if group == _WORD:
        return Node(*_WORDS[found[group]], start, end)
    return Node("number", found[group], start, end)


def _place_only(found: re.Match[str]) -> Node:
    group = found.lastindex or 0
    start, end = found.span(group)
    quotes = group <= _TEXT_IN_SINGLES
    return Node("", None, start - quotes, end + quotes)


def _check_number(found: re.Match[str]) -> None:
    if found.lastindex == _NUMBER and found.end() - found.start(_NUMBER) > MOST_DIGITS:
        raise BadRecord(f"a number has more than {MOST_DIGITS} characters", found.start(_NUMBER))


_ESCAPE: Final = re.compile(r"\\(?:u([dD][89abAB]..)\\u([dD][c-fC-F]..)|u(....)|(.))")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescaped(text: str, pos: int) -> str:
    """A text without its escapes; `pos` is where it begins. BadRecord: half a surrogate pair is no character."""
    if "\\" not in text:
        return text

    def character(found: re.Match[str]) -> str:
        high, low, code, letter = found.groups()
        if letter is not None:
            return _ESCAPED.get(letter, letter)
        if code is None:
            return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10 | int(low, 16) & 0x3FF))
        number = int(code, 16)
        if 0xD800 <= number < 0xE000:
            raise BadRecord("a text has half a surrogate pair", pos + found.start())
        return chr(number)

    return _ESCAPE.sub(character, text)


def _past_space(text: str, pos: int, syntax: Syntax) -> int:
    found = syntax.space(text, pos)
    return pos if found is None else found.end()


def _not_json(text: str, pos: int, syntax: Syntax) -> BadRecord:
    return BadRecord(NOT_JSON, _past_space(text, pos, syntax))


def strict_text(text: str, node: Node) -> str:
    """A value of `text` as JSON of RFC 8259: as it was written, or else as a text of that. BadRecord: half a surrogate
    pair is in it."""
    raw = text[node.start : node.end]
    with suppress(BadRecord):
        if parse_value(raw, 0, STRICT, POS_ONLY).end == len(raw):
            return raw
    return quoted(_unescaped(raw[1:-1], node.start + 1) if raw[0] in "\"'" else raw)


def quoted(text: str) -> str:
    """A text in JSON, with no more escapes than it needs."""
    return json.dumps(text, ensure_ascii=False)


def fields_of(node: Node, name: str | None = "", wanted: Collection[str] | None = None) -> dict[str, Node]:
    """An object's fields by their names; only the `wanted` ones (None: all). BadRecord: one is there twice; `name` is
    how the object is called. None: no name of a field is shown, as it may be a value of somebody's."""
    pairs = node.value if wanted is None else [pair for pair in node.value if pair[0] in wanted]
    fields: dict[str, Node] = dict(pairs)
    if len(fields) < len(pairs):
        if name is None:
            raise BadRecord("a name appears twice", node.start)
        seen = set()
        for field, value in pairs:
            if field in seen:
                raise BadRecord(f"{name}.{field} appears twice" if name else f"{field} appears twice", value.start)
            seen.add(field)
    return fields
