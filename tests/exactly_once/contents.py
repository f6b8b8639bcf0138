"""What the producers' messages hold: a number each, or InLong packs of records with a number each, some of them bad."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from tubeclient.inlong import RecordGroup, encode_pack, records_of

__all__ = ["Content", "Message", "in_packs", "is_bad", "number_in", "numbers_of", "one_each"]

_BAD_EVERY: Final = 100
_STREAM: Final = {"groupId": "storm", "streamId": "numbers", "dt": "1764806400000"}
_PACK: Final = {"msgEnType": "2", "version": "2"}


class Message(NamedTuple):
    """A message to send, and the numbers in it."""

    body: bytes
    attributes: Mapping[str, str]
    numbers: Sequence[int]


Content: TypeAlias = Callable[[Sequence[int]], list[Message]]
"""Makes messages of numbers, each in one message."""


def one_each(numbers: Sequence[int]) -> list[Message]:
    """A message for each number: its body, in decimal."""
    return [Message(b"%d" % number, {}, [number]) for number in numbers]


def in_packs(numbers: Sequence[int]) -> list[Message]:
    """One InLong pack of all numbers, a JSON record each. One in a hundred numbers has a record that is no JSON."""
    records = [_record(number) for number in numbers]
    return [Message(encode_pack([RecordGroup(_STREAM, records)], made_ms=1), _PACK, numbers)]


def is_bad(number: int) -> bool:
    """Whether a pack has a bad record for this number."""
    return number % _BAD_EVERY == _BAD_EVERY - 1


def numbers_of(body: bytes, attributes: Mapping[str, str]) -> list[int]:
    """The numbers in a message, whichever of the two it is."""
    return [int(body)] if body.isdigit() else [number_in(one.body) for one in records_of(body, attributes)]


def number_in(record: bytes) -> int:
    """The number in a record, good or bad."""
    [digits] = re.findall(rb"\d+", record)
    return int(digits)


def _record(number: int) -> bytes:
    text = json.dumps({"number": number}).encode()
    return text[:-1] if is_bad(number) else text
