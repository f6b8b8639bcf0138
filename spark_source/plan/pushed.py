"""Filters that Spark pushes to a batch read: which partitions, offsets and times can match. Pure.

Spark's classes of filters are known by their names here, as Spark before 4.1 has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from spark_source.plan.partition_columns import OF_PARTITIONS
from tubeclient.keys import PartitionKey

__all__ = ["EVERYTHING", "Interval", "Pushed", "pushed"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_OF_PARTITIONS: Final = {name.lower(): value for name, value in OF_PARTITIONS.items()}
"""In lower case, as users may write them."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Integers from `low` to `high`, both included; None: without an end."""

    low: int | None = None
    high: int | None = None

    def within(self, low: int | None, high: int | None) -> Interval:
        """What is in both."""
        lows = [one for one in (self.low, low) if one is not None]
        highs = [one for one in (self.high, high) if one is not None]
        return Interval(max(lows, default=None), min(highs, default=None))

    @property
    def is_all(self) -> bool:
        """Whether every integer is in it."""
        return self.low is None and self.high is None


@dataclass(frozen=True)
class Pushed:
    """What can match all filters. Rows outside of it do not; rows within it may not either."""

    of_partitions: tuple[Any, ...] = ()
    """Spark's filters on columns that are the same for a whole partition."""
    offsets: Interval = Interval()
    times_us: Interval = Interval()
    """Of `messageTime`, in microseconds since 1970."""
    tags: frozenset[str] | None = None
    """Of `messageType`; None: any."""

    def keeps(self, key: PartitionKey) -> bool:
        """Whether messages of a partition can match."""
        return all(_matches(one, key) for one in self.of_partitions)


EVERYTHING: Final = Pushed()


def pushed(filters: Sequence[Any]) -> tuple[Pushed, list[Any]]:
    """Return what can match all of Spark's filters, and those of them that Spark must still check for each row."""
    found, left = EVERYTHING, []
    for one in filters:
        if _known(one) and _column(one) in _OF_PARTITIONS:
            found = replace(found, of_partitions=(*found.of_partitions, one))
            continue
        left.append(one)
        match _column(one):
            case "offset":
                found = replace(found, offsets=found.offsets.within(*_ends(one, _integer)))
            case "messagetime":
                found = replace(found, times_us=found.times_us.within(*_ends(one, _microseconds)))
            case "messagetype":
                tags = _texts(one)
                if tags is not None:
                    found = replace(found, tags=tags if found.tags is None else found.tags & tags)
    return found, left


_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": lambda value, given: value == given,
    "EqualNullSafe": lambda value, given: value == given,
    "GreaterThan": lambda value, given: value > given,
    "GreaterThanOrEqual": lambda value, given: value >= given,
    "LessThan": lambda value, given: value < given,
    "LessThanOrEqual": lambda value, given: value <= given,
    "In": lambda value, given: value in given,
    "StringStartsWith": lambda value, given: value.startswith(given),
    "StringEndsWith": lambda value, given: value.endswith(given),
    "StringContains": lambda value, given: given in value,
}


def _column(one: Any) -> str | None:
    """The column of a filter, in lower case; None for a field of a column."""
    attribute = one.child.attribute if _name(one) == "Not" else one.attribute
    return attribute[0].lower() if len(attribute) == 1 else None


def _name(one: Any) -> str:
    return type(one).__name__


def _known(one: Any) -> bool:
    """Whether a filter can be decided for a value that is not null."""
    if _name(one) == "Not":
        return _known(one.child) and not (_name(one.child) == "In" and None in one.child.value)
    if _name(one) in ("IsNull", "IsNotNull"):
        return True
    # Nothing is greater or less than null, or equal to it; Python would raise an error or say otherwise.
    return _name(one) in _COMPARED and one.value is not None


def _matches(one: Any, key: PartitionKey) -> bool:
    match _name(one):
        case "Not":
            return not _matches(one.child, key)
        case "IsNull" | "IsNotNull":
            return _name(one) == "IsNotNull"
    return _COMPARED[_name(one)](_OF_PARTITIONS[one.attribute[0].lower()](key), one.value)


def _ends(one: Any, to_integer: Callable[[Any], int | None]) -> tuple[int | None, int | None]:
    """The least and the greatest value that match, in integers; None where there is no end, or it is not known."""
    name = _name(one)
    if name == "In":
        numbers = [to_integer(value) for value in one.value if value is not None]
        known = [number for number in numbers if number is not None]
        return (min(known), max(known)) if known and len(known) == len(numbers) else (None, None)
    number = to_integer(getattr(one, "value", None))
    if number is None:
        return None, None
    match name:
        case "EqualTo" | "EqualNullSafe":
            return number, number
        case "GreaterThan":
            return number + 1, None
        case "GreaterThanOrEqual":
            return number, None
        case "LessThan":
            return None, number - 1
        case "LessThanOrEqual":
            return None, number
    return None, None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)


def _texts(one: Any) -> frozenset[str] | None:
    """The only texts that match; None if that is not known."""
    values: list[Any] = [value for value in one.value if value is not None] if _name(one) == "In" else []
    if _name(one) in ("EqualTo", "EqualNullSafe"):
        values = [one.value]
    texts = frozenset(value for value in values if isinstance(value, str))
    return texts if values and texts.issuperset(values) else None
