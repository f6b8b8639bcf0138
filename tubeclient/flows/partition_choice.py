"""Where the next message goes: round robin over the writable partitions, resting those that fail.

No I/O; the clock is handed in.
"""

from __future__ import annotations

from collections.abc import Iterable

from tubeclient.errors import NotAvailable
from tubeclient.keys import PartitionKey, TopicLayout

__all__ = ["PartitionChoice"]

FAILURES_BEFORE_REST = 3
PARTITION_REST_MS = 3_000
BROKER_REST_MS = 50_000
"""For a broker that answered 503; the three figures are those of Apache's producer."""


class PartitionChoice:
    """The partitions of one topic.

    `start` (any number) is where the round begins, so that producers do not march in step.
    """

    def __init__(self, topic: str, start: int) -> None:
        self._topic = topic
        self._next = start
        self._partitions: list[PartitionKey] = []
        self._failures: dict[PartitionKey, int] = {}
        self._resting_until_ms: dict[PartitionKey | int, float] = {}

    def update(self, layouts: Iterable[TopicLayout]) -> None:
        """Take the topic's layouts as the master last gave them."""
        self._partitions = sorted(
            key for layout in layouts if layout.topic == self._topic for key in layout.partitions()
        )

    def choose(self, now_ms: float) -> PartitionKey:
        """Return the next partition that does not rest, or the next one at all where all rest; NotAvailable where
        there is none.
        """
        if not self._partitions:
            raise NotAvailable(403, "no writable partition", context=f"sending to topic {self._topic}")
        for step in range(len(self._partitions)):
            key = self._partitions[(self._next + step) % len(self._partitions)]
            if max(self._resting_until_ms.get(key, 0), self._resting_until_ms.get(key.broker_id, 0)) <= now_ms:
                self._next += step + 1
                return key
        self._next += 1
        return self._partitions[self._next % len(self._partitions)]

    def succeeded(self, key: PartitionKey) -> None:
        """Forget the failures of a partition that took a message."""
        self._failures.pop(key, None)

    def failed(self, key: PartitionKey, now_ms: float, *, whole_broker: bool = False) -> None:
        """Note a failure: the partition rests after more than three in a row, its broker at once where it is
        unavailable as a whole.
        """
        if whole_broker:
            self._resting_until_ms[key.broker_id] = now_ms + BROKER_REST_MS
        self._failures[key] = self._failures.get(key, 0) + 1
        if self._failures[key] > FAILURES_BEFORE_REST:
            self._failures[key] = 0
            self._resting_until_ms[key] = now_ms + PARTITION_REST_MS
