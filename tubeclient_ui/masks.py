"""What `--mask` hides of messages, before anything is shown, searched or downloaded. Pure.

Patterns are matched by RE2, as pyarrow has it: in time linear in the text, whatever the pattern.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tubeclient.errors import ConfigurationError

__all__ = ["HIDDEN", "Masks", "text_of"]

HIDDEN: Final = "***"


def text_of(row: dict[str, Any]) -> str:
    """The value of a message as text; what is not UTF-8 in it is U+FFFD. `row` is from `message_json`."""
    return row["value"] if "value" in row else base64.b64decode(row["base64"]).decode("utf-8", "replace")


class Masks:
    """Hides fields, of JSON at any depth and of `name=value`, and what patterns match.

        >>> Masks(["card", "/[0-9]{16}/"]).hide({"value": '{"card": 7, "note": "4111111111111111"}'})
        {'value': '{"card": "***", "note": "***"}'}

    Args:
        texts: Names of fields, ignoring case, and patterns between slashes.

    Raises:
        ConfigurationError: A text is empty, or a pattern is none of RE2's.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._fields: set[str] = set()
        self._patterns: list[str] = []
        for text in texts:
            if len(text) > 2 and text[0] == text[-1] == "/":
                self._patterns.append(text[1:-1])
            elif text.strip("/ "):
                self._fields.add(text.strip().lower())
            else:
                raise ConfigurationError(f"--mask is {text!r}; name a field, or write a pattern as in /[0-9]{{16}}/")
        names = "|".join(map(re.escape, sorted(self._fields)))
        # Of texts that are not JSON, such as a=1&b=2, or a piece of JSON: up to the end of the quotes, or of the pair.
        self._pairs = rf"""(?i)((?:{names})\\*["']?\s*[:=]\s*)(\\*"(?:[^"\\]|\\.)*"?|[^,;&|}}\]\r\n]*)"""
        try:
            for pattern in self._patterns:
                pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            raise ConfigurationError(f"--mask has a pattern that RE2 does not take: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._fields or self._patterns)

    def hide(self, row: dict[str, Any]) -> dict[str, Any]:
        """The message of `message_json` as it may be shown. Of a bad one only where it is and why it is bad: fields of
        what cannot be read are not known."""
        if not self:
            return row
        if "bad" in row:
            places = ("partition", "offset", "packStart", "packEnd", "messageId")
            return {
                **{name: row[name] for name in places if name in row},
                "value": HIDDEN,
                "bad": self.text(row["bad"]),
            }
        found = dict(row)
        before = text_of(row)
        if (after := self.text(before)) != before:
            found.pop("base64", None)
            found["value"] = after
        if "tag" in row:
            found["tag"] = self.text(row["tag"])
        if "inlong" in row:
            found["inlong"] = {name: self.text(it) if isinstance(it, str) else it for name, it in row["inlong"].items()}
        if "attributes" in row:
            found["attributes"] = {
                self._matched(key): HIDDEN if key.lower() in self._fields else self.text(value)
                for key, value in row["attributes"].items()
            }
        return found

    def text(self, text: str) -> str:
        """The text without what is masked."""
        return self._matched(self._without_fields(text) if self._fields else text)

    def _matched(self, text: str) -> str:
        for pattern in self._patterns:
            text = _replaced(text, pattern, HIDDEN)
        return text

    def _without_fields(self, text: str) -> str:
        """JSON is parsed, as a name may be written with escapes; each object of it, also one whose key comes twice."""
        hit = False

        def inner(value: Any) -> Any:
            nonlocal hit
            if isinstance(value, list):
                return [inner(item) for item in value]
            if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
                after = self._without_fields(value)
                hit = hit or after != value
                return after
            return value

        def masked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal hit
            hit = hit or any(name.lower() in self._fields for name, _ in pairs)
            return {name: HIDDEN if name.lower() in self._fields else inner(value) for name, value in pairs}

        try:
            value = inner(json.loads(text, object_pairs_hook=masked))
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict | list):
            return _replaced(text, self._pairs, rf"\1{HIDDEN}")
        return json.dumps(value, ensure_ascii=False) if hit else text


def _replaced(text: str, pattern: str, by: str) -> str:
    clean = text.encode("utf-8", "replace").decode()  # an escape in JSON may be half of a surrogate pair
    found: str = pc.replace_substring_regex(pa.array([clean]), pattern=pattern, replacement=by)[0].as_py()
    return text if found == clean else found
