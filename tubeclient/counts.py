"""What the clients of this process count, as metrics. No clock, no I/O."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

FetchResult: TypeAlias = Literal["messages", "empty", "error"]

OPERATION_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The bounds that OpenTelemetry advises for the durations of messaging operations."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric, as Prometheus shows it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


Key: TypeAlias = tuple[Metric, tuple[str, ...]]
"""A metric, and the values of its labels."""

Sample: TypeAlias = tuple[Key, tuple[float, ...]]
"""A present value: one number. Of a histogram: how many durations are in each bucket, the one without a bound included,
and their sum in seconds."""


class Durations:
    """A histogram of seconds."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(OPERATION_SECONDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration. One that the clock made negative counts as 0."""
        seconds = max(0.0, seconds)
        self._counts[bisect_left(OPERATION_SECONDS, seconds)] += 1
        self._sum += seconds

    @property
    def values(self) -> tuple[float, ...]:
        """As in a Sample."""
        return (*self._counts, self._sum)


_TOPIC: Final = "messaging_destination_name"
_GROUP: Final = "messaging_consumer_group_name"
_ERROR: Final = "error_type"

_SENT: Final = Metric(
    "messaging_client_sent_messages_total",
    "counter",
    (_TOPIC, _ERROR),
    "Messages that a broker acknowledged, with an empty `error_type`, or that failed, with the error.",
)
_SENT_BYTES: Final = Metric(
    "tubeclient_sent_bytes_total", "counter", (_TOPIC,), "Bytes of the acknowledged messages, attributes included."
)
_SEND_FAULTS: Final = Metric(
    "tubeclient_send_errors_total",
    "counter",
    (_TOPIC, _ERROR),
    "Failed attempts to send a message, including those that were retried.",
)
_SEND_RETRIES: Final = Metric(
    "tubeclient_send_retries_total", "counter", (_TOPIC,), "Further attempts to send a message after a failed one."
)
_OPERATION: Final = Metric(
    "messaging_client_operation_duration_seconds",
    "histogram",
    ("messaging_operation_name", _TOPIC),
    "Seconds from the submit of a message to its acknowledgement (operation `send`).",
)
_IN_FLIGHT: Final = Metric(
    "tubeclient_producer_in_flight_messages",
    "gauge",
    (),
    "Submitted messages that are neither acknowledged nor failed.",
)
_CONSUMED: Final = Metric(
    "messaging_client_consumed_messages_total",
    "counter",
    (_TOPIC, _GROUP),
    "Messages delivered to the application. RangeReaders count under their first reader group.",
)
_CONSUMED_BYTES: Final = Metric(
    "tubeclient_consumed_bytes_total", "counter", (_TOPIC, _GROUP), "Bytes of these messages, attributes included."
)
_FETCHES: Final = Metric(
    "tubeclient_fetches_total",
    "counter",
    (_TOPIC, _GROUP, "result"),
    "Answers to fetches. `result` is messages, empty (nothing to read now), or error.",
)
_READ_FAULTS: Final = Metric(
    "tubeclient_read_errors_total",
    "counter",
    (_TOPIC, _GROUP, _ERROR),
    "Failed fetches and confirmations, including those that were retried.",
)
_LOST: Final = Metric(
    "tubeclient_lost_messages_total",
    "counter",
    (_TOPIC, _GROUP),
    "Upper bound of messages that expired unread: skipped, or raised as DataLoss.",
)
_BAD: Final = Metric(
    "tubeclient_bad_messages_total",
    "counter",
    (_TOPIC, _GROUP),
    "Bad messages delivered with a reason. For RangeReaders, only those that do not match their checksums.",
)
_PROCESS: Final = Metric(
    "messaging_process_duration_seconds",
    "histogram",
    (_TOPIC, _GROUP),
    "Seconds from the delivery of a pack of messages to its confirmation.",
)
_LAG: Final = Metric(
    "tubeclient_consumer_lag_messages",
    "gauge",
    (_TOPIC, _GROUP),
    "Upper bound of unconfirmed messages in this process's partitions, by the brokers' last answers.",
)
_PARTITIONS: Final = Metric(
    "tubeclient_consumer_partitions", "gauge", (_TOPIC, _GROUP), "Partitions that this process's consumers have."
)

CLIENT_METRICS: Final = tuple(metric for metric in list(vars().values()) if isinstance(metric, Metric))
"""All metrics of the client."""


_lock = threading.Lock()
_sums: defaultdict[Key, int] = defaultdict(int)
_durations: defaultdict[Key, Durations] = defaultdict(Durations)


def counted() -> dict[Key, tuple[float, ...]]:
    """What was counted. It only grows; a forked child begins with nothing."""
    with _lock:
        sums: dict[Key, tuple[float, ...]] = {key: (count,) for key, count in _sums.items()}
        return sums | {key: durations.values for key, durations in _durations.items()}


def _begin_anew() -> None:
    global _lock
    _lock = threading.Lock()
    _sums.clear()
    _durations.clear()


os.register_at_fork(after_in_child=_begin_anew)


def _add(metric: Metric, *labels: str, by: int = 1) -> None:
    with _lock:
        _sums[metric, labels] += by


def count_acknowledged(topic: str, payload_bytes: int, seconds: Sequence[float]) -> None:
    """Brokers have more messages, with so many bytes together, each so many seconds after its submit."""
    with _lock:
        _sums[_SENT, (topic, "")] += len(seconds)
        _sums[_SENT_BYTES, (topic,)] += payload_bytes
        durations = _durations[_OPERATION, ("send", topic)]
        for duration in seconds:
            durations.add(duration)


def count_failed(topic: str, error: Exception, *, again: bool) -> None:
    """An attempt to send a message failed; `again` says whether there will be another one."""
    _add(_SEND_FAULTS, topic, type(error).__name__)
    _add(_SEND_RETRIES, topic, by=again)


def count_given_up(topic: str, error: Exception) -> None:
    """A message will not be sent any more."""
    _add(_SENT, topic, type(error).__name__)


def in_flight(messages: int) -> Sample:
    """How many messages of a producer are in flight."""
    return (_IN_FLIGHT, ()), (messages,)


class ReadCounts:
    """Counts what a consumer, or a range reader, reads as `group`, by topic."""

    def __init__(self, group: str = "") -> None:
        self._group = group

    def delivered(self, topic: str, messages: int, payload_bytes: int, bad: int = 0) -> None:
        """The application got so many messages, of which `bad` are bad."""
        labels = (topic, self._group)
        with _lock:
            _sums[_CONSUMED, labels] += messages
            _sums[_CONSUMED_BYTES, labels] += payload_bytes
            _sums[_BAD, labels] += bad
            _sums[_LOST, labels] += 0  # so that the first loss shows as a change

    def fetched(self, topic: str, result: FetchResult) -> None:
        """A broker answered a fetch."""
        _add(_FETCHES, topic, self._group, result)

    def failed(self, topic: str, error: Exception) -> None:
        """A fetch or a confirmation failed."""
        _add(_READ_FAULTS, topic, self._group, type(error).__name__)

    def lost(self, topic: str, messages: int) -> None:
        """So many messages, at most, expired before they were read."""
        _add(_LOST, topic, self._group, by=messages)

    def processed(self, topic: str, seconds: float) -> None:
        """A pack was confirmed so many seconds after it was delivered."""
        with _lock:
            _durations[_PROCESS, (topic, self._group)].add(seconds)


def lag_samples(group: str, behind: dict[str, int], partitions: dict[str, int]) -> Iterator[Sample]:
    """A consumer's present lag in messages, and how many partitions it has, by topic."""
    for topic, count in partitions.items():
        yield (_PARTITIONS, (topic, group)), (count,)
        yield (_LAG, (topic, group)), (behind.get(topic, 0),)
