"""A message as text, JSON and bytes: bounded, and with escapes for what is not printable. Pure."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from tubeclient.printable import printable
from tubeclient_ui.masks import text_of

__all__ = ["KINDS", "minute", "shown_lines", "shown_value"]

KINDS: Final = ("text", "json", "hex")
_MOST_CHARACTERS: Final = 100_000
_MOST_HEX_BYTES: Final = 16_384


def shown_lines(text: str) -> str:
    """The text with its lines. Control characters, and those that turn the direction of text, are escapes."""
    return "\n".join(map(printable, text.split("\n")))


def shown_value(row: dict[str, Any], kind: str) -> tuple[str, bool]:
    """The value of a message of `message_json` as `kind`, and whether something of it is left out. JSON is indented;
    what is none is shown as text."""
    if kind == "hex":
        value = row["value"].encode("utf-8", "surrogatepass") if "value" in row else base64.b64decode(row["base64"])
        lines = (value[at : at + 16] for at in range(0, min(len(value), _MOST_HEX_BYTES), 16))
        hexes = (f"{n * 16:06x}  {line.hex(' '):<47}  {_ascii(line)}" for n, line in enumerate(lines))
        return "\n".join(hexes), len(value) > _MOST_HEX_BYTES
    text = text_of(row)
    if kind == "json":
        text = _indented(text)
    return shown_lines(text[:_MOST_CHARACTERS]), len(text) > _MOST_CHARACTERS


def minute(text: str) -> str:
    """A message's time, yyyyMMddHHmm, for people."""
    return f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:]}" if len(text) == 12 else text


def _ascii(line: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)


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
