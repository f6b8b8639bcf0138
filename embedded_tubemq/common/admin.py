"""Shared by the two HTTP interfaces: parameters, refusals, TubeMQ's form of answers.

Answers are always HTTP 200; `result` and `errCode` (0, or 400 and up) give the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["AdminError", "Parameters", "failed", "listed", "succeeded"]


class AdminError(Exception):
    """A call that failed; becomes errMsg."""


class Parameters:
    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        """A text. Without a value and a default the call fails."""
        if value := self._values.get(name, "").strip():
            return value
        if default is None:
            raise AdminError(f"the parameter {name} is missing")
        return default

    def texts(self, name: str, *, required: bool = False) -> list[str]:
        items = [item.strip() for item in self.text(name, None if required else "").split(",") if item.strip()]
        return list(dict.fromkeys(items))

    def number(self, name: str, default: int | None = None) -> int:
        text = self.text(name, None if default is None else str(default))
        try:
            return int(text)
        except ValueError as error:
            raise AdminError(f"the parameter {name} is {text!r}, which is not a number") from error

    def numbers(self, name: str) -> list[int]:
        """A list of whole numbers, which has one at least."""
        texts = self.texts(name, required=True)
        if not all(text.isdecimal() and len(text) < 20 for text in texts):
            raise AdminError(f"the parameter {name} is {','.join(texts)!r}, which is not a list of numbers")
        return [int(text) for text in texts]

    def switch(self, name: str, default: bool | None = None) -> bool:
        return self.text(name, None if default is None else str(default)).lower() == "true"


def succeeded(message: str = "OK", **fields: Any) -> dict[str, Any]:
    return {"result": True, "errCode": 0, "errMsg": message, **fields}


def listed(data: list[Any]) -> dict[str, Any]:
    return succeeded(data=data, count=len(data))


def failed(error: Exception, code: int = 400) -> dict[str, Any]:
    return {"result": False, "errCode": code, "errMsg": str(error)}
