"""Flow control by the master's rules: how fast a group may read.

A rule text is JSON, a list of {"type": t, "rule": [...]} (FlowCtrlRuleHandler). Type 0 limits the bytes per minute of a
reader with a large lag, at certain times of day. Type 1 sets the wait after so many empty answers, type 3 the interval
of full answers. A cluster has one text; a group may have its own, which takes precedence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tubeclient.errors import ProtocolError

_MIB = 1 << 20
_MINUTE_MS = 60_000.0
_WINDOW_MS = 5_000.0
"""The bytes of a minute are spread over twelve windows."""

_DAY_MINUTES = 24 * 60
_PAUSES = ("normFreqInMs", "filterFreqInMs", "minDataFilterFreqInMs")

_TIME_ZONE_OFFSET_MS = 8 * 3_600_000
"""Times of day in rules are GMT+8, wherever the cluster is (FlowCtrlRuleHandler)."""


class DataLimit(NamedTuple):
    """From `start_minute` to `end_minute` of the day (GMT+8), a reader with a lag of more than `lag_bytes` gets
    `bytes_per_minute`, and then waits `pause_ms` between two fetches."""

    start_minute: int
    end_minute: int
    lag_bytes: int
    bytes_per_minute: int
    pause_ms: float


class EmptyPolls(NamedTuple):
    """After so many empty answers in a row, wait `pause_ms`."""

    empty_answers: int
    pause_ms: float


class FetchPauses(NamedTuple):
    """Waits between two fetches with messages: for readers without a filter, with one, and with one near the end."""

    unfiltered_ms: float
    filtered_ms: float
    filtered_near_end_ms: float


@dataclass(frozen=True, slots=True)
class FlowRules:
    """One parsed rule text."""

    data_limits: tuple[DataLimit, ...] = ()
    empty_polls: tuple[EmptyPolls, ...] = ()
    """Highest count first."""
    fetch_pauses: FetchPauses | None = None

    @classmethod
    def parse(cls, text: str) -> FlowRules:
        """Read a rule text, whose numbers its master has checked. A blank one has no rules. ProtocolError for a text
        that cannot be read."""
        if not text.strip():
            return NO_RULES
        try:
            rules: dict[int, list[Mapping[str, Any]]] = {}
            for entry in json.loads(text):
                rules.setdefault(int(entry["type"]), []).extend(entry["rule"])
            limits = [_data_limit(item) for item in rules.get(0, ())]
            polls = [EmptyPolls(int(item["zeroCnt"]), int(item["freqInMs"])) for item in rules.get(1, ())]
            pauses = [FetchPauses(*(int(item.get(name, 0)) for name in _PAUSES)) for item in rules.get(3, ())]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise ProtocolError(f"the flow-control rules are invalid: {error!r}") from error
        return cls(tuple(limits), tuple(sorted(polls, reverse=True)), pauses[0] if pauses else None)

    def data_limit(self, lag_bytes: int, minute: int) -> DataLimit | None:
        """The limit of a reader `lag_bytes` behind at `minute` of the day; of several the one for the longest lag."""
        fitting = [limit for limit in self.data_limits if limit.start_minute <= minute <= limit.end_minute]
        return max(
            (limit for limit in fitting if lag_bytes > limit.lag_bytes), key=lambda limit: limit.lag_bytes, default=None
        )


NO_RULES = FlowRules()


def minute_of_day(wall_ms: float) -> int:
    """The minute of the day, in the rules' time zone, at `wall_ms` since 1970."""
    return int((wall_ms + _TIME_ZONE_OFFSET_MS) // _MINUTE_MS % _DAY_MINUTES)


class PartitionPace:
    """How long one partition has to wait for its next fetch, by what it has read lately.

    Rules are applied again each minute, as on the brokers. Times are milliseconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self.empty_answers = 0
        """In a row, so far."""
        self._minute_end = self._window_end = 0.0
        self._minute_bytes = self._window_bytes = 0
        self._limit: DataLimit | None = None

    def after_messages(
        self,
        group: FlowRules,
        default: FlowRules,
        *,
        now_ms: float,
        minute: int,
        message_bytes: int,
        lag_bytes: int,
        filtered: bool,
        near_end: bool,
    ) -> float:
        """Milliseconds to wait after an answer with messages."""
        self.empty_answers = 0
        if now_ms >= self._minute_end:
            self._limit = group.data_limit(lag_bytes, minute) or default.data_limit(lag_bytes, minute)
            self._minute_end, self._minute_bytes, self._window_end = now_ms + _MINUTE_MS, 0, now_ms
        if now_ms >= self._window_end:
            self._window_end, self._window_bytes = now_ms + _WINDOW_MS, 0
        self._minute_bytes += message_bytes
        self._window_bytes += message_bytes
        limit = self._limit
        if limit is not None and (
            self._minute_bytes >= limit.bytes_per_minute or self._window_bytes >= limit.bytes_per_minute / 12
        ):
            return limit.pause_ms
        pauses = group.fetch_pauses or default.fetch_pauses
        if pauses is None:
            return 0.0
        if not filtered:
            return pauses.unfiltered_ms
        return pauses.filtered_near_end_ms if near_end else pauses.filtered_ms

    def after_nothing(self, group: FlowRules, default: FlowRules, otherwise_ms: float) -> float:
        """Milliseconds to wait after an empty answer: by the rules, or `otherwise_ms`."""
        self.empty_answers += 1
        rules = group.empty_polls or default.empty_polls
        return next((rule.pause_ms for rule in rules if self.empty_answers >= rule.empty_answers), otherwise_ms)


def _data_limit(item: Mapping[str, Any]) -> DataLimit:
    start, end = (
        (int(hours) * 60 + int(minutes)) for hours, minutes in (item[at].split(":") for at in ("start", "end"))
    )
    return DataLimit(start, end, int(item["dltInM"]) * _MIB, int(item["limitInM"]) * _MIB, int(item["freqInMs"]))
