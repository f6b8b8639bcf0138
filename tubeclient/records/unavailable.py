"""Values that Debezium writes where the database gave none: PostgreSQL's of TOAST that an update left alone, Oracle's
LOBs, MySQL's BLOB and TEXT with binlog_row_image=NOBLOB.

By Debezium's sources at aad55199 (3.7.0-SNAPSHOT), the classes UnchangedToastedPlaceholder, OracleValueConverters and
BinlogValueConverters, the placeholder has a form for each type of column.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any, Final
from uuid import UUID

from tubeclient.errors import ConfigurationError
from tubeclient.records.json_text import Node

PLACEHOLDER: Final = "unavailableValuePlaceholder"
"""The option that says what the connector's `unavailable.value.placeholder` is."""
_DEFAULT: Final = "__debezium_unavailable_value"
_NUMBER: Final = re.compile(r"([0-9]{1,3})(?:\.0+)?")


class Unavailable:
    """Knows the placeholder. ConfigurationError: it is none."""

    def __init__(self, placeholder: str = _DEFAULT) -> None:
        data = placeholder.encode()
        if placeholder.startswith("hex:"):
            try:
                data = bytes.fromhex(placeholder[4:])
            except ValueError:
                raise ConfigurationError(f"{PLACEHOLDER} is {placeholder!r}, whose hex digits are invalid") from None
        if not data:
            raise ConfigurationError(f"{PLACEHOLDER} is empty")
        text = data.decode(errors="replace")
        # binary.handling.mode: base64, base64-url-safe, hex. hstore.handling.mode=json has an object's text.
        forms = (text, base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex())
        self._texts = {*forms, json.dumps({text: text}, separators=(",", ":"), ensure_ascii=False)}
        # Java's UUID.nameUUIDFromBytes.
        uuid = str(UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
        self._items = {*self._texts, uuid}
        self._text = text
        self._bytes = [*data]

    def for_core(self) -> dict[str, Any]:
        """As the core is told."""
        return {"text": self._text, "texts": [*self._texts], "items": [*self._items], "bytes": len(self._bytes)}

    def is_it(self, node: Node) -> bool:
        """Whether a value stands for one that the database did not give."""
        if node.kind == "text":
            return node.value in self._texts
        if node.kind == "object":
            return [(name, inner.kind, inner.value) for name, inner in node.value] == [(self._text, "text", self._text)]
        return node.kind == "list" and self._is_list(node.value)

    def _is_list(self, items: list[Node]) -> bool:
        """Of texts one, of numbers one for each byte."""
        if len(items) == 1 and items[0].kind == "text" and items[0].value in self._items:
            return True
        if len(items) != len(self._bytes):
            return False
        found = (_NUMBER.fullmatch(item.value) if item.kind in ("number", "text") else None for item in items)
        return all(
            number is not None and int(number[1]) == byte for number, byte in zip(found, self._bytes, strict=True)
        )
