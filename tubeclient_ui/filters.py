"""Which messages a search shows: by text, regular expression or JSON path. Pure.

Messages are hostile, and so may a pattern be: RE2 matches in linear time, and repetitions, which multiply that, are
limited.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.errors import ConfigurationError
from tubeclient_ui.masks import text_of

__all__ = ["MessageFilter"]

_LONGEST: Final = 300
"""Characters of a filter."""
_MOST_REPEATED: Final = 300
"""The product of a pattern's counts. At the worst RE2 then takes some seconds for a message of 1 MB."""
_COUNTS: Final = re.compile(r"\{(?:\d*,)?(\d+)")
_WHERE: Final = re.compile(r"([^=!<>]+)(?:(!=|>=|<=|=|>|<)(.+))?", re.DOTALL)
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,9}|\*)\]")
_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


class _Condition(NamedTuple):
    """A JSON path, and what its values are compared with; without `compare` there only has to be a value."""

    steps: tuple[str | int, ...]
    compare: str
    value: str

    @classmethod
    def parse(cls, text: str) -> _Condition:
        whole = _WHERE.fullmatch(text)
        path = "" if whole is None else whole[1].strip().removeprefix("$")
        steps = list(_STEP.finditer(path))
        if whole is None or not steps or "".join(step[0] for step in steps) != path:
            raise ConfigurationError(f"the JSON path {text!r} is none; write user.id = 7, or items[*].price > 9.5")
        names = (step[1] or (step[2] if step[2] == "*" else int(step[2])) for step in steps)
        return cls(tuple(names), whole[2] or "", (whole[3] or "").strip())

    def holds(self, text: str) -> bool:
        """Whether a value at the path of this JSON is as wanted; false for what is not JSON."""
        try:
            return any(self._fits(value) for value in self._values(json.loads(text), 0))
        except (ValueError, RecursionError):
            return False

    def _values(self, node: Any, at: int) -> Iterator[Any]:
        if at == len(self.steps):
            yield node
            return
        step = self.steps[at]
        if step == "*":
            nodes = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        elif isinstance(step, int):
            nodes = node[step : step + 1] if isinstance(node, list) else ()
        else:
            nodes = [node[step]] if isinstance(node, dict) and step in node else ()
        for found in nodes:
            yield from self._values(found, at + 1)

    def _fits(self, found: Any) -> bool:
        if not self.compare:
            return True
        try:
            wanted = json.loads(self.value)
        except (ValueError, RecursionError):
            wanted = self.value
        if self.compare in ("=", "!="):
            return (found == wanted or str(found) == self.value) is (self.compare == "=")
        alike = isinstance(found, str) is isinstance(wanted, str) and isinstance(wanted, str | int | float)
        return alike and isinstance(found, str | int | float) and _COMPARED[self.compare](found, wanted)


class MessageFilter:
    """Takes messages that fit all that is given; "" is nothing.

        >>> MessageFilter(path="user.id > 6").matches({"value": '{"user": {"id": 7}}'})
        True

    Args:
        text: A piece of the value, or of an attribute as key=value, ignoring case.
        regex: A regular expression of RE2, for the same.
        path: A JSON path, alone or compared with a value.

    Raises:
        ConfigurationError: One of them cannot be used.
    """

    def __init__(self, text: str = "", regex: str = "", path: str = "") -> None:
        if max(map(len, (text, regex, path))) > _LONGEST:
            raise ConfigurationError(f"a filter has at most {_LONGEST} characters")
        self._text, self._regex = text.lower(), regex
        self._condition = _Condition.parse(path) if path else None
        if math.prod(int(count[:9]) or 1 for count in _COUNTS.findall(regex)) > _MOST_REPEATED:
            raise ConfigurationError(f"the counts of the regular expression multiply to more than {_MOST_REPEATED}")
        try:
            pc.match_substring_regex(pa.array([""]), regex)
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            raise ConfigurationError(f"the regular expression cannot be used (its syntax is RE2's): {error}") from None

    def matches(self, row: dict[str, Any]) -> bool:
        """Whether a message of `message_json` fits."""
        value = text_of(row)
        text = "\n".join((value, *(f"{key}={it}" for key, it in row.get("attributes", {}).items())))
        return (
            self._text in text.lower()
            and (not self._regex or self._regex_matches(text))
            and (self._condition is None or self._condition.holds(value))
        )

    def _regex_matches(self, text: str) -> bool:
        clean = text.encode("utf-8", "replace").decode()
        return bool(pc.match_substring_regex(pa.array([clean]), self._regex)[0].as_py())
