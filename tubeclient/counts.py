"""What clients count: plain numbers. No clock, no I/O.

A client adds to its own counts, in steps that run under a lock or on one thread anyway. Whoever shows them only looks.
So counting costs a client no lock of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

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


class Sample(NamedTuple):
    """A metric's present value for certain labels."""

    metric: Metric
    labels: tuple[str, ...]
    values: tuple[float, ...]
    """One number. Of a histogram: how many durations are in each bucket, the one without a bound included, and their
    sum in seconds."""


class Durations:
    """A histogram of seconds."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...] = OPERATION_SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration. One that the clock made negative counts as 0."""
        seconds = max(0.0, seconds)
        self._counts[bisect_left(self._bounds, seconds)] += 1
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
    "Messages that a Producer has finished with. `error_type` is empty if a broker acknowledged them, otherwise the "
    "error that they failed with.",
)
_SENT_BYTES: Final = Metric(
    "tubeclient_sent_bytes_total", "counter", (_TOPIC,), "Bytes of the acknowledged messages, attributes included."
)
_SEND_FAULTS: Final = Metric(
    "tubeclient_send_errors_total",
    "counter",
    (_TOPIC, _ERROR),
    "Attempts to send a message that failed, retried ones included.",
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
    "tubeclient_producer_in_flight_messages", "gauge", (), "Submitted messages that are not settled yet."
)
_CONSUMED: Final = Metric(
    "messaging_client_consumed_messages_total",
    "counter",
    (_TOPIC, _GROUP),
    "Messages handed to the application by consumers, and by RangeReaders under their first reader group.",
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
    "Failed fetches and confirmations, retried ones included.",
)
_LOST: Final = Metric(
    "tubeclient_lost_messages_total",
    "counter",
    (_TOPIC, _GROUP),
    "The most messages that expired before they were read; skipped or raised as DataLoss.",
)
_BAD: Final = Metric(
    "tubeclient_bad_messages_total",
    "counter",
    (_TOPIC, _GROUP),
    "Bad messages that were delivered with a reason; of RangeReaders only those that do not match their checksums.",
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
    "The most messages that are not confirmed yet in this process's partitions, by the brokers' last answers.",
)
_PARTITIONS: Final = Metric(
    "tubeclient_consumer_partitions", "gauge", (_TOPIC, _GROUP), "Partitions that this process's consumers have."
)

CLIENT_METRICS: Final = (
    _SENT,
    _SENT_BYTES,
    _SEND_FAULTS,
    _SEND_RETRIES,
    _OPERATION,
    _IN_FLIGHT,
    _CONSUMED,
    _CONSUMED_BYTES,
    _FETCHES,
    _READ_FAULTS,
    _LOST,
    _BAD,
    _PROCESS,
    _LAG,
    _PARTITIONS,
)
"""All metrics of the client."""


class Counts:
    """What one client has counted: all values that only grow."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[Metric, tuple[str, ...]], int] = defaultdict(int)
        self._durations: defaultdict[tuple[Metric, tuple[str, ...]], Durations] = defaultdict(Durations)

    def add(self, metric: Metric, *labels: str, by: int = 1) -> None:
        self._sums[metric, labels] += by

    def samples(self) -> Iterator[Sample]:
        for (metric, labels), value in list(self._sums.items()):
            yield Sample(metric, labels, (value,))
        for (metric, labels), durations in list(self._durations.items()):
            yield Sample(metric, labels, durations.values)


class SendCounts(Counts):
    """What a producer has sent, by topic."""

    def acknowledged(self, topic: str, payload_bytes: int, seconds: float) -> None:
        """A broker has one more message, so many seconds after its submit."""
        self._sums[_SENT, (topic, "")] += 1
        self._sums[_SENT_BYTES, (topic,)] += payload_bytes
        self._durations[_OPERATION, ("send", topic)].add(seconds)

    def failed(self, topic: str, error: Exception, *, again: bool) -> None:
        """An attempt failed; `again` says whether there will be another one."""
        self.add(_SEND_FAULTS, topic, type(error).__name__)
        self.add(_SEND_RETRIES, topic, by=again)

    def given_up(self, topic: str, error: Exception) -> None:
        """A message will not be sent any more."""
        self.add(_SENT, topic, type(error).__name__)

    @property
    def unsent(self) -> dict[str, int]:
        """How many messages were given up, of the topics that have some."""
        found: Counter[str] = Counter()
        for (metric, labels), count in list(self._sums.items()):
            if metric is _SENT and labels[1]:
                found[labels[0]] += count
        return found

    @staticmethod
    def now(in_flight: int) -> Iterator[Sample]:
        """How many messages are in flight at present."""
        yield Sample(_IN_FLIGHT, (), (in_flight,))


class ReadCounts(Counts):
    """What a consumer, or a range reader, has read as `group`, by topic."""

    def __init__(self, group: str = "") -> None:
        super().__init__()
        self._group = group

    def delivered(self, topic: str, messages: int, payload_bytes: int, bad: int = 0) -> None:
        """The application got so many messages, of which `bad` are bad."""
        self.add(_CONSUMED, topic, self._group, by=messages)
        self.add(_CONSUMED_BYTES, topic, self._group, by=payload_bytes)
        self.add(_BAD, topic, self._group, by=bad)
        self.lost(topic, 0)  # so that the first loss shows as a change

    def fetched(self, topic: str, result: FetchResult) -> None:
        """A broker answered a fetch."""
        self.add(_FETCHES, topic, self._group, result)

    def failed(self, topic: str, error: Exception) -> None:
        """A fetch or a confirmation failed."""
        self.add(_READ_FAULTS, topic, self._group, type(error).__name__)

    def lost(self, topic: str, messages: int) -> None:
        """So many messages, at most, expired before they were read."""
        self.add(_LOST, topic, self._group, by=messages)

    def processed(self, topic: str, seconds: float) -> None:
        """A pack was confirmed so many seconds after it was delivered."""
        self._durations[_PROCESS, (topic, self._group)].add(seconds)


def lag_samples(group: str, behind: dict[str, int], partitions: dict[str, int]) -> Iterator[Sample]:
    """A consumer's present lag in messages, and how many partitions it has, by topic."""
    for topic, count in partitions.items():
        yield Sample(_PARTITIONS, (topic, group), (count,))
        yield Sample(_LAG, (topic, group), (behind.get(topic, 0),))
