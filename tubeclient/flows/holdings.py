"""The partitions a consumer holds, and which of them may be asked for messages next. No I/O, no clock."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from tubeclient.flows.effects import Ticket
from tubeclient.flows.throttling import PartitionPace
from tubeclient.keys import BrokerInfo, PartitionKey
from tubeclient.wire.messages import Columns, MessagePack

__all__ = ["BrokerLine", "Delivery", "Holding", "Holdings", "Phase", "Position"]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition has been read; index offsets (28 bytes a message of its store)."""

    confirmed: int
    """Where the group goes on after a restart: everything before it was confirmed."""
    fetched: int
    """Everything before it was handed out: behind the pack that is out, `confirmed` where none is. Exact where the
    store has one partition and nothing is filtered; else the pack may reach further."""
    end: int
    """The broker's end of the data, as it said last."""
    updated_ms: float
    """When the broker last said anything of it, milliseconds since 1970."""


class Delivery(MessagePack):
    """A pack of messages of one partition, in order, to be confirmed once they are dealt with.

    Iterating gives `Message` objects. `bodies` and `message_ids` are the same as columns, which is faster.
    """

    __slots__ = ("columns", "end", "lag_bytes", "number", "partition", "settled", "start")

    def __init__(
        self,
        number: int,
        partition: PartitionKey,
        start: int,
        end: int,
        lag_bytes: int,
        columns: Columns,
    ) -> None:
        self.number = number
        """Counts the packs of a consumer."""
        self.partition = partition
        self.start = start
        """Index offset at which the pack begins; where it ends is known when it is confirmed."""
        self.end = end
        """The end of the partition's data, not of the pack, as an index offset."""
        self.lag_bytes = lag_bytes
        """Bytes of messages behind this pack, -1 where the broker does not say."""
        self.settled = False
        """Whether it was confirmed, or given back to be read again."""
        self.columns = columns

    def __repr__(self) -> str:
        return f"<Delivery {self.number} of {self.partition}, {len(self)} messages from {self.start}>"


class Phase(Enum):
    """What is going on with a partition."""

    REGISTERING = "registering"
    IDLE = "idle"
    FETCHING = "fetching"
    DELIVERED = "delivered"
    CONFIRMING = "confirming"
    GONE = "gone"


@dataclass(eq=False, slots=True)
class BrokerLine:
    """A broker that partitions are held on, and whether it answers."""

    info: BrokerInfo
    up: bool = True
    kept: bool = False
    """Somebody keeps the leases of the partitions on it."""

    @property
    def signal(self) -> str:
        """Wakes the keeper of its leases."""
        return f"broker {self.info.broker_id}"


@dataclass(eq=False, slots=True)
class Holding:
    """One partition that is held, or about to be."""

    key: PartitionKey
    line: BrokerLine
    filters: frozenset[str]
    phase: Phase = Phase.REGISTERING
    leaving: bool = False
    """Is being given back: nothing more is asked for."""
    epoch: int = 0
    """Counts the registrations: what was asked for under an earlier one does not count any more."""
    confirmed: int = -1
    end: int = -1
    updated_ms: float = 0.0
    fetched: int = -1
    """Where the pack that is out ends at the earliest."""
    expected: int | None = None
    """Where the next pack must begin if nothing expired; None where the position can have moved without our seeing."""
    siblings: Sequence[PartitionKey] = ()
    """All partitions that share its store's index."""
    doubtful: int | None = None
    """From here on nothing is known yet of whether the broker still has the data of the index's entries."""
    may_be_new: bool = False
    """The group may have had no position before: then what is older than the first message was never its to read."""
    ticket: Ticket | None = None
    awaited: bool = False
    """Somebody takes the answer to `ticket` already."""
    committing: bool = False
    """A commit is on its way: until it is known what became of it, no answer to a fetch counts."""
    sent_over: int | None = None
    """The connection over which something was last asked for, None where that is not sure."""
    sending: int = 0
    """Fetches and commits that may not have reached the socket yet."""
    empty_ms: float = 0.0
    """When the last answer without messages came."""
    empty_at: int = -1
    """Where the last pack without messages began."""
    noted: bool = False
    """The broker may have noted a fetch of messages that are not confirmed."""
    connection: int | None = None
    """The connection over which the broker last said that the partition is ours."""
    commit_next: bool = False
    """The next fetch commits what the last one passed over."""
    delivery: int | None = None
    """Number of the pack that is out, unconfirmed."""
    overdue_ms: float = 0.0
    """When that pack is given up."""
    resume_ms: float = 0.0
    """Flow control: no fetch before that, once the pack is confirmed; 0 for at once."""
    turn: int = 0
    """Which of its places in the queue of idle partitions counts: the last one."""
    failures: int = 0
    pace: PartitionPace = field(default_factory=PartitionPace)

    @property
    def position(self) -> Position:
        fetched = self.fetched if self.delivery is not None else self.confirmed
        return Position(self.confirmed, fetched, self.end, self.updated_ms)


class Holdings:
    """All partitions of one consumer, by key; the idle ones take turns."""

    def __init__(self) -> None:
        self.by_key: dict[PartitionKey, Holding] = {}
        self.fetching: dict[Holding, None] = {}
        """Those with a fetch in the air or an answer nobody took, the oldest first."""
        self.delivered: dict[Holding, None] = {}
        """Those with an unconfirmed pack, the oldest first."""
        self.lines: dict[int, BrokerLine] = {}
        self.unanswered: set[PartitionKey] = set()
        """Those whose broker may still get what was asked for under their present client id, and not be waited for."""
        self._ready: deque[tuple[int, Holding]] = deque()
        self._resting: list[tuple[float, int, Holding]] = []
        self._turns = itertools.count(1)

    def line(self, broker: BrokerInfo) -> BrokerLine:
        """The line to a broker, made when it is first wanted; it follows a change of the broker's address."""
        line = self.lines.setdefault(broker.broker_id, BrokerLine(broker))
        line.info = broker
        return line

    def of_line(self, line: BrokerLine) -> list[Holding]:
        """The partitions held on that broker."""
        return [holding for holding in self.by_key.values() if holding.line is line]

    def registered(self) -> list[PartitionKey]:
        """The partitions that are held, sorted."""
        return sorted(key for key, holding in self.by_key.items() if holding.epoch > 0)

    def set_idle(self, holding: Holding, rest_until_ms: float = 0.0) -> None:
        """The partition may be asked for messages, from then on."""
        self.drop_work(holding)
        holding.phase = Phase.IDLE
        holding.turn = next(self._turns)
        if rest_until_ms > 0:
            heapq.heappush(self._resting, (rest_until_ms, holding.turn, holding))
        else:
            self._ready.append((holding.turn, holding))

    def drop_work(self, holding: Holding) -> None:
        """Whatever is under way for the partition does not count any more: fetch, answer, unconfirmed pack."""
        holding.ticket, holding.awaited, holding.delivery = None, False, None
        self.fetching.pop(holding, None)
        self.delivered.pop(holding, None)

    def next_idle(self, now_ms: float, line: BrokerLine | None = None) -> Holding | None:
        """Take the partition whose turn it is off the queue; None where all are busy, resting or unreachable, and
        where it is the turn of one that is not on `line`.
        """
        self._end_rests(now_ms)
        for _ in range(len(self._ready)):
            turn, holding = self._ready.popleft()
            if turn != holding.turn or holding.phase is not Phase.IDLE or holding.leaving:
                continue
            if holding.line.up and not holding.sending and holding.key not in self.unanswered:
                if line is None or holding.line is line:
                    return holding
                self._ready.appendleft((turn, holding))
                return None
            self._ready.append((turn, holding))
        return None

    def next_rest_end_ms(self, now_ms: float) -> float | None:
        """When the next of the resting partitions may be asked again; None where none rests."""
        self._end_rests(now_ms)
        return self._resting[0][0] if self._resting else None

    def _end_rests(self, now_ms: float) -> None:
        while self._resting and self._resting[0][0] <= now_ms:
            _, turn, holding = heapq.heappop(self._resting)
            self._ready.append((turn, holding))
