"""Where to begin, and where a batch read ends: the option values `earliest`, `latest`, `group`, JSON, and times.

    earliest
    {"1:clicks:0": 2800, "1:clicks:1": "earliest", "default": "latest"}

JSON maps partition keys (brokerId:topic:partitionId) to offsets. As in Kafka's source -2 means earliest and -1 latest.
Unlike there, "default" applies to all partitions that are not named. Offsets in the form of a query's progress, by
store and runs of partition ids, are accepted too. Timestamps are milliseconds since 1970; they count to the minute,
like producers' times.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

from spark_source.offsets.offsets import VERSION, Offsets, check_version
from tubeclient.errors import ConfigurationError, ConnectError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey, checked_offset

if TYPE_CHECKING:
    from tubeclient.metadata import ClusterView
    from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = [
    "Moment",
    "OffsetLimit",
    "OffsetSpec",
    "check_order",
    "json_object",
    "parse_timestamp",
    "resolve",
    "without_times",
]


@dataclass(frozen=True, slots=True)
class Moment:
    """The offset of a partition's first message of a timestamp's minute or later."""

    timestamp_ms: int
    """Milliseconds since 1970."""


_Word = Literal["earliest", "latest", "group", "group:earliest", "group:latest"]
OffsetLimit = int | _Word | Moment
"""One partition's start or end: an offset, a word, or a time. The word after `group:` is for topics without a position
of the group."""

_log = logging.getLogger(__name__)

_NUMBERS: dict[int, OffsetLimit] = {-2: "earliest", -1: "latest"}
_WORDS: dict[str, OffsetLimit] = {word: word for word in get_args(_Word)}
_DEFAULT = "default"

LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: larger numbers are not milliseconds."""


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """The parsed value of startingOffsets or endingOffsets, or of an option that names times instead."""

    option: str
    """The option's name, for messages."""
    default: OffsetLimit | None
    """For all partitions not named; None: each must be named."""
    named: tuple[tuple[PartitionKey, OffsetLimit], ...] = ()
    """The named partitions, sorted by key."""

    @classmethod
    def parse(cls, text: str, option: str) -> OffsetSpec:
        """Parse an option's value. Raises ConfigurationError."""
        word = _WORDS.get(text.strip().lower())
        if word is not None:
            return cls(option, word)
        entries = json_object(text, option)
        if entries is None:
            raise ConfigurationError(
                f"{option} is {text!r}; write earliest, latest, group, or JSON from partition keys to offsets, as "
                'in {"1:clicks:0": 2800, "default": "earliest"}'
            )
        default: OffsetLimit | None = None
        named: dict[PartitionKey, OffsetLimit] = {}
        for key, value in entries.items():
            if key == _DEFAULT:
                default = _limit(value, f"{option}'s default entry")
            elif key == "version":  # the offsets of a checkpoint
                check_version(value, VERSION, f"the offsets in {option}")
            elif ":" not in key:
                raise ConfigurationError(
                    f"{option} names {key!r}, which is not a partition; write offsets by brokerId:topic:partitionId, "
                    'as in {"1:clicks:0": 2800}' + ", not by topic as for Kafka's source" * isinstance(value, dict)
                )
            elif isinstance(value, dict):
                offsets = Offsets.of_stores({key: value})
                put_once(named, offsets, option)
            else:
                put_once(named, {PartitionKey.parse(key): _limit(value, f"{key} in {option}")}, option)
        return cls(option, default, tuple(sorted(named.items())))

    @property
    def text(self) -> str:
        """Equal for equal specs; identifies a query's starting options."""
        limits: dict[str, OffsetLimit | None] = {str(key): limit for key, limit in self.named}
        return json.dumps({**limits, _DEFAULT: self.default}, default=asdict)

    def unknown(self, partitions: Iterable[PartitionKey]) -> list[PartitionKey]:
        """Return the named partitions that are not in `partitions`, sorted."""
        return sorted({key for key, _ in self.named}.difference(partitions))

    def without_unknown(self, partitions: Iterable[PartitionKey]) -> OffsetSpec:
        """Return this spec without named partitions that are not in `partitions`; logs a warning if there are any."""
        unknown = self.unknown(partitions)
        if not unknown:
            return self
        _log.warning(
            "failOnDataLoss is false; continuing without partitions that %s names but the topics do not have: %s",
            self.option,
            _some(unknown),
        )
        return replace(self, named=tuple((key, limit) for key, limit in self.named if key not in unknown))

    def with_known(self, known: Mapping[PartitionKey, int]) -> OffsetSpec:
        """Return this spec with `known` positions for partitions that it does not name, where their default would not
        find these, or would have to ask a broker."""
        new = {**known, **dict(self.named)} if self.default in (None, "latest") else {}
        return replace(self, named=tuple(sorted(new.items()))) if new else self

    def with_new_from_earliest(self, partitions: Iterable[PartitionKey]) -> OffsetSpec:
        """Return this spec for continuing at offsets reached earlier. Where it names offsets in a topic, the topic's
        other `partitions` are new, so they begin at the earliest offset: the default `latest` would skip their
        messages."""
        if self.default != "latest":
            return self
        named = dict(self.named)
        known_topics = {key.topic for key, limit in self.named if isinstance(limit, int)}
        new: dict[PartitionKey, OffsetLimit] = {
            key: "earliest" for key in partitions if key.topic in known_topics and key not in named
        }
        return replace(self, named=tuple(sorted({**named, **new}.items()))) if new else self

    @property
    def by_time(self) -> bool:
        """Whether any partition's limit is a time."""
        return any(isinstance(limit, Moment) for limit in (self.default, *dict(self.named).values()))

    @property
    def by_group(self) -> bool:
        """Whether any partition's limit is the group's position."""
        return any(map(_is_group, (self.default, *dict(self.named).values())))

    def uses(self, word: OffsetLimit) -> bool:
        """Whether any partition's limit is `word`."""
        return word == self.default or any(limit == word for _, limit in self.named)


def _is_group(limit: OffsetLimit | None) -> bool:
    return isinstance(limit, str) and limit.startswith("group")


def _limit(value: object, where: str) -> OffsetLimit:
    found = _WORDS.get(value) if isinstance(value, str) else _NUMBERS.get(value) if isinstance(value, int) else None
    return checked_offset(value, where) if found is None else found


def resolve(
    spec: OffsetSpec,
    partitions: Iterable[PartitionKey],
    bounds: Mapping[StoreKey, StoreBounds],
    group_positions: Callable[[], Mapping[PartitionKey, int]],
) -> Offsets:
    """Return the offset of each of `partitions`. Times must have been resolved before.

    Calls `group_positions` once, and only if `group` is used. A partition without a group position is read from its
    beginning if the group has a position elsewhere in the topic (then the partition is new), otherwise by the word
    after `group:`. ConfigurationError: a named partition does not exist, or an existing one has no limit.

    Of a store that `bounds` do not have, a partition at `latest` is a ConnectError, and one at the store's first offset
    is left out: it enters there later, as a new partition does.
    """
    keys = sorted(partitions)
    named = dict(spec.named)
    unknown = spec.unknown(keys)
    if unknown:
        raise ConfigurationError(
            f"{spec.option} names {_some(unknown)}, which the subscribed topics do not have; they have "
            f"{_some(keys)}. Correct it. Or, if partitions or their broker were removed, set failOnDataLoss=false to "
            "start without them: a stream continues at the named offsets when such a broker is back"
        )
    missing = [key for key in keys if key not in named] if spec.default is None else []
    if missing:
        raise ConfigurationError(
            f'{spec.option} has no entry for {_some(missing)}; add the missing ones, or "default" for all others'
        )
    positions = group_positions() if spec.by_group else {}
    known_topics = {key.topic for key in positions}
    lost = [key for key in keys if named.get(key, spec.default) == "group" and key.topic not in known_topics]
    if lost:
        raise ConfigurationError(
            f"{spec.option} is group, but neither the offsets table nor the brokers have a position of the group for "
            f"{_some(lost)}; use group:earliest or group:latest, or set {spec.option} to another value"
        )
    resolved: dict[PartitionKey, int] = {}
    silent: list[PartitionKey] = []
    for key in keys:
        limit = named.get(key, spec.default)
        assert not isinstance(limit, Moment), f"{key} at {limit} was not looked for"
        if _is_group(limit):
            is_latest = limit == "group:latest" and key.topic not in known_topics
            fallback: OffsetLimit = "latest" if is_latest else "earliest"
            limit = positions.get(key, fallback)
        store = bounds.get(key.store)
        if isinstance(limit, int):
            resolved[key] = limit
        elif store is not None:
            resolved[key] = store.max_offset if limit == "latest" else store.min_offset
        elif limit == "latest":
            silent.append(key)
    if silent:
        raise _silent(f"{spec.option} has latest", silent)
    return Offsets(resolved)


def parse_timestamp(text: str, option: str) -> OffsetSpec:
    """Parse an option with one time for all partitions. Raises ConfigurationError."""
    timestamp_ms = int(text) if text.strip().isdecimal() else LAST_MS + 1
    if timestamp_ms > LAST_MS:
        raise ConfigurationError(
            f"the time {text!r} of {option} is not a number of milliseconds since 1970, such as 1700000000000"
        )
    return OffsetSpec(option, Moment(timestamp_ms))


def check_order(start: OffsetSpec, end: OffsetSpec) -> None:
    """Raise ConfigurationError for a start later than the end."""
    first, last = start.default, end.default
    if isinstance(first, Moment) and isinstance(last, Moment) and first.timestamp_ms > last.timestamp_ms:
        raise ConfigurationError(
            f"{end.option} {_written(last)} is before {start.option} {_written(first)}; swap or change them"
        )


def _written(moment: Moment) -> str:
    return f"{moment.timestamp_ms} ({datetime.fromtimestamp(moment.timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC)"


def without_times(
    spec: OffsetSpec,
    partitions: Iterable[PartitionKey],
    lookup: OffsetLookup,
    view: ClusterView,
    bounds: Mapping[StoreKey, StoreBounds],
    time_zone: str,
) -> OffsetSpec:
    """Return `spec` with offsets in place of times, looked up within `bounds`, by clocks of `time_zone`; `latest` where
    no message is of the minute or later. NoMessageTime: messages carry no time. ConnectError: `bounds` lack a store."""
    keys = sorted(partitions)
    if not spec.by_time or spec.unknown(keys):
        return spec  # `resolve` reports unknown names
    named = dict(spec.named)
    limits = {key: named.get(key, spec.default) for key in keys}
    timestamps_ms = {key: limit.timestamp_ms for key, limit in limits.items() if isinstance(limit, Moment)}
    silent = [key for key in timestamps_ms if key.store not in bounds]
    if silent:
        raise _silent(f"{spec.option} is a time", silent)
    found = lookup.offsets_at(view, timestamps_ms, time_zone=time_zone, bounds=bounds)
    missing = [key for key, at in found.items() if at is None]
    _log.info("%s: searched %d partitions, %d have no message so late", spec.option, len(found), len(missing))
    unchanged = {key: limit for key, limit in limits.items() if limit is not None and key not in timestamps_ms}
    by_time: dict[PartitionKey, OffsetLimit] = {key: "latest" if at is None else at for key, at in found.items()}
    pinned = {**unchanged, **by_time}
    return replace(spec, default=None, named=tuple(sorted(pinned.items())))


def _silent(what: str, keys: list[PartitionKey]) -> ConnectError:
    return ConnectError(
        f"{what}, which must be looked up at the brokers, but the broker of {_some(keys)} does not answer; start "
        "again when it does",
        condition="BROKER_UNREACHABLE",
    )


def _some(keys: list[PartitionKey]) -> str:
    shown = ", ".join(str(key) for key in keys[:3])
    return f"{shown} and {len(keys) - 3} more partitions" if len(keys) > 3 else shown or "no partition"


Key = TypeVar("Key")
Value = TypeVar("Value")


def json_object(text: str, option: str) -> dict[str, Any] | None:
    """Return the object in `text`, or None if it is not an object. ConfigurationError for a repeated name."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError(f"{option} names {twice!r} twice; keep one of the entries")
        return found

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except ConfigurationError:
        raise
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def put_once(found: dict[Key, Value], more: Mapping[Key, Value], option: str) -> None:
    """Add `more` to `found`. ConfigurationError for what `option` names twice in different spellings, as 1:t:0 and
    01:t:0."""
    for key, value in more.items():
        if key in found:
            raise ConfigurationError(f"{option} names {key} twice; keep one of the entries")
        found[key] = value
