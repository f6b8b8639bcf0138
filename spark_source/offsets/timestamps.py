"""Starts and ends by time: the options' values, and the search for their offsets.

Timestamps are milliseconds since 1970, as in Kafka's source. They count to the minute, like producers' times.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from spark_source.offsets.offset_spec import Moment, OffsetSpec, Place
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["check_order", "parse_timestamp", "without_times"]

_log = logging.getLogger(__name__)

_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: larger numbers are not milliseconds."""


def parse_timestamp(text: str, option: str) -> OffsetSpec:
    """Parse an option with one time for all partitions. Raises ConfigurationError."""
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return OffsetSpec(option, _moment(value, option))


def _moment(value: object, where: str) -> Moment:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LAST_MS:
        raise ConfigurationError(
            f"the time {value!r} of {where} is not a number of milliseconds since 1970, as 1700000000000 is"
        )
    return Moment(value)


def check_order(start: OffsetSpec, end: OffsetSpec) -> None:
    """Raise ConfigurationError for a start later than the end."""
    first, last = start.default, end.default
    if isinstance(first, Moment) and isinstance(last, Moment) and first.timestamp_ms > last.timestamp_ms:
        raise ConfigurationError(
            f"{end.option} {_written(last.timestamp_ms)} is before {start.option} {_written(first.timestamp_ms)}; "
            "swap or change them"
        )


def without_times(
    spec: OffsetSpec,
    partitions: Iterable[PartitionKey],
    lookup: OffsetLookup,
    view: ClusterView,
    bounds: Mapping[StoreKey, StoreBounds],
    time_zone: str,
) -> OffsetSpec:
    """Return `spec` with offsets in place of times, looked up within `bounds`, by clocks of `time_zone`; `latest` where
    no message is of the minute or later. Times of stores that are not in `bounds` stay.

    NoMessageTime: messages carry no time.
    """
    keys = sorted(partitions)
    if not spec.by_time or spec.unknown(keys):
        return spec  # `resolve` reports unknown names
    named = dict(spec.named)
    places = {key: named.get(key, spec.default) for key in keys}
    timestamps_ms = {
        key: place.timestamp_ms for key, place in places.items() if isinstance(place, Moment) and key.store in bounds
    }
    found = lookup.offsets_at(view, timestamps_ms, time_zone=time_zone, bounds=bounds)
    missing = [key for key, at in found.items() if at is None]
    _log.info("%s: searched %d partitions, %d have no message so late", spec.option, len(found), len(missing))
    stay = {key: place for key, place in places.items() if place is not None and key not in timestamps_ms}
    pinned: dict[PartitionKey, Place] = {**stay, **{key: "latest" if at is None else at for key, at in found.items()}}
    return replace(spec, default=None, named=tuple(sorted(pinned.items())))


def _written(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return f"{timestamp_ms} ({moment:%Y-%m-%d %H:%M} UTC)"
