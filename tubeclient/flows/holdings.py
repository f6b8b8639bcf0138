"""A consumer's partitions, and which may be fetched from next. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence

from tubeclient.flows.holding import BrokerLine, Holding
from tubeclient.flows.turns import Turns
from tubeclient.keys import BrokerInfo, PartitionKey


class Holdings:
    """All partitions of one consumer, by key; idle ones take turns."""

    def __init__(self) -> None:
        self.by_key: dict[PartitionKey, Holding] = {}
        self.lines: dict[int, BrokerLine] = {}
        self.turns: Turns[Holding] = Turns()
        self.unanswered: set[PartitionKey] = set()
        """Partitions with requests that were not answered and may still reach the broker."""
        self.writes: dict[object, list[Holding]] = {}
        """The partitions of each write of fetches and commits that is under way."""

    def line(self, broker: BrokerInfo) -> BrokerLine:
        """The line to a broker, made on first use; it follows a change of the broker's address."""
        line = self.lines.setdefault(broker.broker_id, BrokerLine(broker))
        line.info = broker
        return line

    def of_line(self, line: BrokerLine) -> list[Holding]:
        """The partitions held on that broker."""
        return [holding for holding in self.by_key.values() if holding.line is line]

    def registered(self) -> list[PartitionKey]:
        """The held partitions, sorted."""
        return sorted(key for key, holding in self.by_key.items() if holding.is_registered)

    def hold(
        self, key: PartitionKey, line: BrokerLine, filters: frozenset[str], siblings: Sequence[PartitionKey]
    ) -> Holding:
        """Add a partition that is about to be registered."""
        holding = self.by_key[key] = Holding(key, line, filters, siblings, self.turns)
        return holding

    def has(self, holding: Holding) -> bool:
        """Whether it is the current holding, not a dropped one."""
        return self.by_key.get(holding.key) is holding

    def drop(self, holding: Holding) -> None:
        """Stop holding the partition. Its open requests may come late."""
        if self.has(holding):
            if holding.is_asked_for:
                self.unanswered.add(holding.key)
            holding.ends()  # first: if this is interrupted, it is still there to be dropped
            del self.by_key[holding.key]

    def is_written(self, holding: Holding) -> bool:
        """Whether a fetch or a commit of it is being written to the socket."""
        return any(holding in write for write in self.writes.values())

    def next_idle(self, now_ms: float, committing: Holding | None = None) -> Holding | None:
        """The partition whose turn it is. None if all are busy, resting or unreachable.

        With `committing`, for a fetch in the same write as the commit of that partition: None also if it is the turn
        of one on another broker.
        """
        holding = self.turns.next(now_ms, lambda one: self._is_usable(one, committing))
        return holding if holding is None or committing is None or holding.line is committing.line else None

    def _is_usable(self, holding: Holding, committing: Holding | None) -> bool:
        """Whether a fetch of it may be sent. While a commit of it is open, only in the write of that commit: another
        write may go over a new connection and overtake the commit, which would then cover what the fetch noted.
        """
        behind_commit = holding.committing and holding is not committing
        is_free = not behind_commit and not self.is_written(holding)
        return holding.line.up and is_free and holding.key not in self.unanswered
