"""Reads the fields of TubeMQ's JSON with their expected types; a ProtocolError names a wrong field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from tubeclient.errors import ProtocolError

_MAX_INT64: Final = (1 << 63) - 1
_SHOWN_CHARACTERS: Final = 60

# The servers write this for an unknown number or boolean.
_NOTHING: Final = "-"


class Fields:
    """One JSON object; `where` names the answer in errors."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self._values = values
        self._where = where

    def objects(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [self._object(name, item) for item in self._list(name)]

    def sub_object(self, name: str) -> Fields:
        """An object; a missing one is empty."""
        return self._object(name, self._values.get(name, {}))

    def names(self) -> list[str]:
        """The names of all fields, for objects that map names to things."""
        return list(self._values)

    def texts(self, name: str) -> frozenset[str]:
        """A list of texts, as a set: its order has no meaning."""
        found = self._list(name)
        return frozenset(item if isinstance(item, str) else self._wrong(name, "a list of texts") for item in found)

    def text(self, name: str) -> str:
        """A text."""
        value = self._values.get(name)
        return value if isinstance(value, str) else self._wrong(name, "a text")

    def number(self, name: str, *, low: int = 0, high: int = _MAX_INT64) -> int:
        """A whole number in [low, high]."""
        value = self._values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        return self._wrong(name, f"a whole number from {low} to {high}")

    def column(self, name: str, field: str, lines: Iterable[int] | None = None, *, high: int = _MAX_INT64) -> list[int]:
        """A whole number from 0 to `high` of each object of a list, perhaps thousands, or of those in `lines`."""
        items: list[Any] = self._list(name)
        if lines is not None:
            items = [items[line] for line in lines]
        try:
            found = [item[field] for item in items]
        except (TypeError, LookupError):
            found = [None]  # checked one by one below
        if set(map(type, found)) <= {int} and 0 <= min(found, default=0) <= max(found, default=0) <= high:
            return found
        return [self._object(name, item).number(field, high=high) for item in items]

    def known_number(self, name: str) -> int | None:
        """A whole number from 0 on; None if the server has none (-1, -2 or "-")."""
        if self._values.get(name, _NOTHING) == _NOTHING:
            return None
        value = self.number(name, low=-2)
        return value if value >= 0 else None

    def flag(self, name: str) -> bool:
        """A boolean, which some calls write as text; False if the server has none."""
        value = self._values.get(name, _NOTHING)
        if isinstance(value, bool):
            return value
        if value in ("true", "false", _NOTHING):
            return value == "true"
        return self._wrong(name, "true or false")

    def _list(self, name: str) -> list[object]:
        value = self._values.get(name)
        return value if isinstance(value, list) else self._wrong(name, "a list")

    def _object(self, name: str, value: object) -> Fields:
        return Fields(value, self._where) if isinstance(value, dict) else self._wrong(name, "an object")

    def _wrong(self, name: str, expected: str) -> NoReturn:
        if name not in self._values:
            raise ProtocolError(f"{self._where} without the field {name}, which is {expected}")
        found = str(self._values[name])[:_SHOWN_CHARACTERS]
        raise ProtocolError(f"{self._where} with {found!r} in the field {name}, which is {expected}")
