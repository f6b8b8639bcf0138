"""Shared by the two HTTP interfaces: parameters with two names, lists, refusals, TubeMQ's form of answers.

Answers are always HTTP 200; `result` and `errCode` (0, or 400 and up) give the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["AdminError", "Parameters", "failed", "listed", "succeeded"]

# Short names of parameters; source: WebFieldDef.
_SHORT_NAMES = {
    "topicName": "topic",
    "groupName": "group",
    "consumeGroup": "group",
    "partitionId": "pid",
    "createUser": "cur",
    "modifyUser": "mur",
    "manualOffset": "offset",
    "sourceGroupName": "srcGroup",
    "targetGroupName": "tgtGroup",
    "manualSet": "manSet",
    "offsetJsonInfo": "offsetInfo",
    "confModAuthToken": "authToken",
    "numTopicStores": "numStore",
    "numPartitions": "numPart",
    "acceptPublish": "accPub",
    "acceptSubscribe": "accSub",
    "brokerIp": "bIp",
}


class AdminError(Exception):
    """A call that failed; becomes errCode and errMsg."""

    def __init__(self, text: str, code: int = 400) -> None:
        super().__init__(text)
        self.code = code


class Parameters:
    """The parameters of one call, each with its long or its short name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        """A text. Without a value and a default the call fails."""
        value = self._values.get(name) or self._values.get(_SHORT_NAMES.get(name, name)) or ""
        if value.strip():
            return value.strip()
        if default is None:
            raise AdminError(f"the parameter {name} is missing")
        return default

    def texts(self, name: str, *, required: bool = False) -> list[str]:
        """A list, separated by commas."""
        items = [item.strip() for item in self.text(name, None if required else "").split(",") if item.strip()]
        return list(dict.fromkeys(items))

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        text = self.text(name, None if default is None else str(default))
        try:
            return int(text)
        except ValueError as error:
            raise AdminError(f"the parameter {name} is {text!r}, which is not a number") from error

    def numbers(self, name: str) -> list[int]:
        """A list of whole numbers."""
        texts = self.texts(name)
        if not all(text.isdecimal() and len(text) < 20 for text in texts):
            raise AdminError(f"the parameter {name} is {','.join(texts)!r}, which is not a list of numbers")
        return [int(text) for text in texts]

    def switch(self, name: str, default: bool | None = None) -> bool:
        """true or false."""
        return self.text(name, None if default is None else str(default)).lower() == "true"


def succeeded(message: str = "OK", **fields: Any) -> dict[str, Any]:
    """The answer to a successful call."""
    return {"result": True, "errCode": 0, "errMsg": message, **fields}


def listed(data: list[Any]) -> dict[str, Any]:
    """The master's answer with a list."""
    return succeeded(data=data, count=len(data))


def failed(error: AdminError) -> dict[str, Any]:
    """The answer to a failed call."""
    return {"result": False, "errCode": error.code, "errMsg": str(error)}
