"""A message as text, JSON and bytes: bounded, and with escapes for what is not printable. Pure."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

from tubeclient.printable import printable
from tubeclient_ui.masks import text_of

__all__ = ["KINDS", "body_of", "fault_at", "minute", "shown_lines", "shown_value", "with_fault"]

KINDS: Final = ("text", "json", "hex")
_MOST_CHARACTERS: Final = 100_000
_MOST_HEX_BYTES: Final = 16_384
_ASCII: Final = bytes(byte if 32 <= byte < 127 else ord(".") for byte in range(256))
_FAULT: Final = re.compile(r", at byte ([0-9]{1,9})$")


def body_of(row: dict[str, Any]) -> bytes:
    """The value of a message of `message_json`."""
    return row["value"].encode("utf-8", "surrogatepass") if "value" in row else base64.b64decode(row["base64"])


def shown_lines(text: str) -> str:
    """The text with its lines. Control characters, and those that turn the direction of text, are escapes."""
    return "\n".join(map(printable, text.split("\n")))


def shown_value(row: dict[str, Any], kind: str, most: int = _MOST_CHARACTERS) -> tuple[str, bool]:
    """The value of a message of `message_json` as `kind`, and whether something of it is left out. JSON is indented;
    what is none is shown as text. `most` are characters, or bytes as hex."""
    if kind == "hex":
        most = min(most, _MOST_HEX_BYTES)
        value = body_of(row)
        lines = ((at, value[at : min(at + 16, most)]) for at in range(0, min(len(value), most), 16))
        shown = (f"{at:06x}  {line.hex(' '):<47}  {line.translate(_ASCII).decode()}" for at, line in lines)
        return "\n".join(shown), len(value) > most
    text = text_of(row)
    if kind == "json":
        text = _indented(text)
    return shown_lines(text[:most]), len(text) > most


def fault_at(reason: str) -> int | None:
    """The byte of the record that the reason of a bad one names, from 0; None if it names none."""
    found = _FAULT.search(reason)
    return None if found is None else int(found[1])


def with_fault(row: dict[str, Any], kind: str, reason: str) -> tuple[str, str, str, bool]:
    """The value of `shown_value` up to the byte that the reason names, that byte or its character, what follows, and
    whether something is left out. Without such a place all is in the first text: JSON that is indented has none."""
    value, cut = shown_value(row, kind)
    at = fault_at(reason)
    if at is None or "base64" not in row or (kind == "json" and value != shown_value(row, "text")[0]):
        return value, "", "", cut
    data = base64.b64decode(row["base64"])
    if kind == "hex":
        begin, length = at // 16 * 74 + 8 + at % 16 * 3, 2
    else:
        begin = len(shown_lines(data[:at].decode("utf-8", "replace")))
        length = len(shown_lines(data[at : at + 4].decode("utf-8", "replace")[:1]))
    return value[:begin], value[begin : begin + length] or " ", value[begin + length :], cut


def minute(text: str) -> str:
    """A message's time, yyyyMMddHHmm, for people."""
    return f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:]}" if len(text) == 12 else text


def _indented(text: str) -> str:
    """Deep JSON grows with each level, so no more is made of it than is shown."""
    pieces, size = [], 0
    try:
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_CHARACTERS:
                break
    except (ValueError, RecursionError):
        return text
    return "".join(pieces)
