"""Two answers to the same question, field by field. What is not compared is listed here, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from embedded_tubemq.common.codes import Code
from tests.recorder.exchanges import fields_of
from tests.recorder.proxy import BROKER_LISTS

__all__ = ["Names", "differences", "translated"]

IDS: Final[Mapping[str, str]] = {
    "brokerCheckSum": "the version of the list of brokers, for producers; the time at which the master made it",
    "brokerConfigId": "the same for consumers",
    "topicMetaInfoId": "the version of the list of topics; a time. Apache's master makes one for each group",
    "configId": "the version of the cluster's settings; a time",
    "visitAuthorizedToken": "what the master lets clients show to brokers; the time at which it made it",
    "messageId": "the broker's number of a message, made of its clock",
}
"""Chosen by servers, so they differ; but what is the same, or another, on one side is so on the other."""

MANY: Final = frozenset({"topicMetaInfoId"})
"""An embedded master may have one for several of Apache's."""

RENEWED: Final = frozenset({"visitAuthorizedToken"})
"""Each master makes another one after some minutes, at moments of its own, and never gives an older one again."""

SET_ASIDE: Final[Mapping[str, str]] = {
    "appendTime": "the broker's clock when it took the message",
    "currDataDlt": "bytes behind the pack in the broker's own files: the embedded one's records are 32 bytes longer. "
    "And Apache's counts the last message of a pack as unread where it reads it from memory",
}
"""Whatever it is. It is there on both sides."""

SETTINGS: Final[Mapping[str, str]] = {
    "appdConfig": "the largest message: an embedded cluster has one set, and so a version of it; Apache's has none "
    "(-2) until an operator sets it. For the same reason the last part of `topicInfos` is set aside",
}
"""Compared for its presence alone."""

_ADDRESS = re.compile(r"^(\d+):[^:]+:[ \d]+$")


class Names:
    """Which id of one side is which of the other: one to one, for each field of `IDS`."""

    def __init__(self) -> None:
        self._replayed: dict[tuple[str, int], int] = {}
        self._recorded: dict[tuple[str, int], int] = {}
        self._newest: dict[str, int] = {}

    def fit(self, field: str, recorded: int, replayed: int) -> bool:
        """Whether the two can be the same thing. New ones are from now on. Negative numbers mean "none" everywhere."""
        if recorded < 0 or replayed < 0:
            return recorded == replayed
        if field in RENEWED:
            self._replayed[field, recorded] = replayed
            before, self._newest[field] = self._newest.get(field, 0), replayed
            return before <= replayed
        return self._replayed.setdefault((field, recorded), replayed) == replayed and (
            field in MANY or self._recorded.setdefault((field, replayed), recorded) == recorded
        )

    def replayed(self, field: str, recorded: int) -> int:
        """What the other side calls it."""
        return self._replayed.get((field, recorded), recorded)


def translated(request: Message, names: Names, later_ms: int) -> Message:
    """The request with the other side's ids. `later_ms` is how much later than the recorded it is asked."""
    other = type(request)()
    other.CopyFrom(request)
    _translate(other, names, later_ms)
    return other


def _translate(message: Message, names: Names, later_ms: int) -> None:
    for field, value in message.ListFields():
        if isinstance(value, Message):
            _translate(value, names, later_ms)
        elif field.name in IDS:
            setattr(message, field.name, names.replayed(field.name, value))
        elif field.name == "lstAssignedTime" and value >= 0:
            setattr(message, field.name, value + later_ms)


def differences(recorded: Message, replayed: Message, names: Names) -> list[str]:
    """The fields that differ, with both values."""
    return list(_differences(_comparable(recorded), _comparable(replayed), names, ""))


def _comparable(answer: Message) -> dict[str, Any]:
    fields = fields_of(answer)
    if fields.get("errCode") != 200 or "appendOffset" in fields:
        # A text for people where the call is refused, in each server's words. After a send the message's id, as text.
        fields["errMsg"] = bool(fields["errMsg"])
    if fields.get("errCode") == Code.NOT_FOUND and "minLimitTime" in fields:
        # Apache's broker says -1, or 0 if it looked into its memory first. Clients take both for "no time is named".
        fields["minLimitTime"] = max(fields["minLimitTime"], 0)
    for name in BROKER_LISTS:
        # Each server has its own ports, and Apache's lists no order: they are hash maps.
        if name in fields:
            fields[name] = sorted(_ADDRESS.sub(r"\1", text) for text in fields[name])
    for name in SETTINGS.keys() & fields.keys():
        fields[name] = True
    for name in ("topicInfos", "topicMetaInfoList"):
        if name in fields:
            fields[name] = sorted(map(_layout, fields[name]))
    return fields


def _layout(text: str) -> tuple[str, list[str]]:
    """A topic and its brokers, in any order."""
    topic, brokers, *_ = text.split("#")
    return topic, sorted(brokers.split(","))


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], names: Names, path: str) -> Iterator[str]:
    for name in sorted(one.keys() | other.keys()):
        where = path + name
        if name not in one or name not in other:
            yield f"{where}: {one.get(name, 'absent')!r} was recorded, {other.get(name, 'absent')!r} replayed"
        elif isinstance(one[name], dict):
            yield from _differences(one[name], other[name], names, f"{where}.")
        elif name == "messages":
            yield from _pairwise(one[name], other[name], names, where)
        elif name in SET_ASIDE:
            continue
        elif not (names.fit(name, one[name], other[name]) if name in IDS else one[name] == other[name]):
            yield f"{where}: {one[name]!r} was recorded, {other[name]!r} replayed"


def _pairwise(ones: list[dict[str, Any]], others: list[dict[str, Any]], names: Names, where: str) -> Iterator[str]:
    if len(ones) != len(others):
        yield f"{where}: {len(ones)} were recorded, {len(others)} replayed"
    for number, (one, other) in enumerate(zip(ones, others, strict=False)):
        yield from _differences(one, other, names, f"{where}[{number}].")
