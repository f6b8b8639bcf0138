"""Arguments of another kind than a call takes: one error that says what was given, what is wanted, and an example."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

T = TypeVar("T")


def checked_kind(value: object, kind: type[T], name: str, example: str) -> T:
    """Return `value` if it is a `kind`; ConfigurationError if not. The value itself is not in the error: it may be a
    password in the wrong place."""
    if not isinstance(value, kind):
        given = "None" if value is None else _one(type(value))
        raise ConfigurationError(f"{name} must be {_one(kind)}, such as {example}, not {given}")
    return value


def _one(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


def checked_partition(value: object) -> PartitionKey:
    """Return `value` if it is a PartitionKey; ConfigurationError if not."""
    return checked_kind(value, PartitionKey, "a partition", 'PartitionKey.parse("1:clicks:0")')


def checked_partitions(offsets: object, name: str) -> Mapping[PartitionKey, object]:
    """Return `offsets` if it maps partitions to whatever; ConfigurationError, with the argument's `name`, if not."""
    wanted = f"{name} must be a map from PartitionKey to offset"
    if not isinstance(offsets, Mapping):
        raise ConfigurationError(f'{wanted}, such as {{PartitionKey.parse("1:clicks:0"): 28}}, not {offsets!r}')
    for key in offsets:
        if not isinstance(key, PartitionKey):
            raise ConfigurationError(f"{wanted}; {key!r} is not a PartitionKey")
    return offsets


def whole_number(value: object, name: str) -> int:
    """Return `value` if it is a whole number; ConfigurationError if not."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{name} must be a whole number, not {value!r}")
    return value


def given_ms(limit: float, name: str = "timeout_ms") -> float:
    """A call's time limit as its caller gave it; it may be infinite. ConfigurationError if it is no number: a wait for
    NaN would not end, whatever comes."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or math.isnan(limit):
        raise ConfigurationError(f"{name} must be a number of milliseconds, not {limit!r}")
    return limit


def nearest(name: str, known: Iterable[str]) -> str:
    """What to write instead of an unknown name."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]}?" if near else f"use one of {', '.join(known)}"


def kinds_of(settings: type, leave_out: Iterable[str] = ()) -> dict[str, type]:
    """The types of a dataclass's fields, by the field's name: str, int, bool, tuple or Mapping, and not None."""
    out = set(leave_out)
    return {name: _kind(hint) for name, hint in get_type_hints(settings).items() if name not in out}


def _kind(hint: Any) -> type:
    [kind] = set(get_args(hint)) - {NoneType} if isinstance(hint, UnionType) else {hint}
    found: type = get_origin(kind) or kind
    return found
