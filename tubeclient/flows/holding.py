"""The partitions of a consumer, and the events that change them. No I/O, no clock. Times are ms of a monotonic clock.

A partition has one request open at most. Each change of its phase makes a new version of it: whoever waited for an
answer meanwhile sees by the version whether the answer still counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tubeclient.flows.effects import Ticket
from tubeclient.flows.message_pack import DamageCheck, PackCheck, Position
from tubeclient.flows.throttling import PartitionPace
from tubeclient.keys import BrokerInfo, PartitionKey


class Phase(Enum):
    """The state of a partition."""

    VOID = "void"
    """What the broker has for it is unknown. It is registered anew before anything else is asked."""
    REGISTERING = "registering"
    IDLE = "idle"
    FETCHING = "fetching"
    DELIVERED = "delivered"
    COMMITTING = "committing"
    GONE = "gone"


@dataclass(eq=False, slots=True)
class BrokerLine:
    """A broker with held partitions, and whether it answers. Emitted before a partition of it is taken: somebody must
    keep its leases from then on."""

    info: BrokerInfo
    up: bool = True

    @property
    def signal(self) -> str:
        """Wakes the thread that keeps its leases."""
        return f"broker {self.info.broker_id}"


class ConfirmedPosition(NamedTuple):
    """How far a partition was confirmed, and whether its broker may have noted more."""

    confirmed: int
    is_unconfirmed: bool


class PackOut(NamedTuple):
    """A delivered, unconfirmed pack."""

    number: int
    end: int
    """The index offset where it ends at the earliest."""
    overdue_ms: float
    """When it is given up."""
    resume_ms: float = 0.0
    """Flow control: no fetch before this time, once it is confirmed."""


@dataclass(eq=False, slots=True)
class Holding:
    """A partition that is held, or about to be."""

    key: PartitionKey
    line: BrokerLine
    filters: frozenset[str]
    siblings: Sequence[PartitionKey]
    """All partitions that share its store's index."""
    all: Holdings
    phase: Phase = Phase.GONE
    version: int = 0
    assigned: bool = False
    """The application was told that it is held."""
    leaving: bool = False
    """It is being released. No more packs are given."""
    registration: int = 0
    """Counts the registrations."""
    connection: int | None = None
    """The connection over which the broker last confirmed the registration."""
    last_position: ConfirmedPosition | None = None
    """Where the group stood before it became void. None when it is registered again."""
    jumps: bool = False
    """It goes on after its last message when it is registered anew."""
    confirmed: int = -1
    """The group's position, -1 before the first registration."""
    end: int = -1
    updated_ms: float = 0.0
    is_unconfirmed: bool = False
    """The broker may have noted a fetch whose messages are not confirmed."""
    ticket: Ticket | None = None
    """Stands for the answer to its open fetch, until somebody takes it."""
    sent_ms: float = 0.0
    """When that fetch was sent. The broker read soon after that, however long the answer waits here."""
    commit_next: bool = False
    """The next fetch commits what the last one skipped."""
    out: PackOut | None = None
    """Set while DELIVERED."""
    rest_until_ms: float = 0.0
    failures: int = 0
    """Refused fetches in a row."""
    expected: int | None = None
    """Where the next pack must begin if nothing expired. None if the position may have moved unseen."""
    read_ms: float = 0.0
    """When the last answered fetch was sent, or it registered. What came since was not seen."""
    suspected_loss: int | None = None
    """From there on it is unknown whether the broker still has the data of the index's entries."""
    lost_to: int = 0
    """Up to there it is known since the registration what expired."""
    fresh: bool = False
    """The group may be new, and had no message since it began. What expired before its first one is no loss."""
    pace: PartitionPace = field(default_factory=PartitionPace)
    damage: DamageCheck = field(default_factory=DamageCheck)
    check: PackCheck = field(default_factory=PackCheck)

    @property
    def position(self) -> Position:
        """How far it has been read."""
        confirmed = self.last_confirmed_position.confirmed
        fetched = confirmed if self.out is None else self.out.end
        return Position(confirmed, fetched, self.end, self.updated_ms)

    @property
    def is_alone(self) -> bool:
        """Whether each entry of its store's index should give one of its messages."""
        return len(self.siblings) == 1 and not self.filters

    def become(self, phase: Phase) -> int:
        """Begin a phase, behind all that are in it. Returns the new version."""
        for others in self.all.in_phase.values():
            others.pop(self, None)
        self.version += 1
        self.phase, self.ticket, self.out = phase, None, None
        if phase is not Phase.GONE:
            self.all.in_phase[phase][self] = None
        return self.version

    def void(self) -> None:
        """Nothing that was asked counts any more; a request may still come late. An unconfirmed pack is given up."""
        if self.phase is not Phase.GONE:
            self.last_position = self.last_confirmed_position
            self.become(Phase.VOID)

    @property
    def last_confirmed_position(self) -> ConfirmedPosition:
        """Where the group stood when that was known last."""
        return self.last_position or ConfirmedPosition(self.confirmed, self.is_unconfirmed)

    def rest(self, until_ms: float = 0.0, *, expected: int | None = None, commit_next: bool = False) -> None:
        """It waits for its turn, which comes at that time or later. The next fetch repeats the last one, or commits
        what that one skipped; it begins where it is `expected` to, unless that is not known."""
        self.rest_until_ms, self.expected, self.commit_next = until_ms, expected, commit_next
        self.become(Phase.IDLE)

    def suspect_loss(self, start: int) -> None:
        """From `start` on, data may have expired."""
        if self.suspected_loss is None and not self.fresh:
            self.suspected_loss = max(start, self.lost_to)

    def clear_suspicion(self, *, fresh: bool = False) -> None:
        """It is known what had expired. `fresh`: nothing had, since the group is new."""
        self.suspected_loss, self.fresh = None, fresh

    def answered(self, start: int, end: int, *, wall_ms: float) -> None:
        """The broker told the group's position and the end of the data."""
        self.confirmed, self.end, self.updated_ms = start, max(end, start), wall_ms


class Holdings:
    """All partitions of one consumer. Those in a phase are in the order in which they came to it."""

    def __init__(self) -> None:
        self.by_key: dict[PartitionKey, Holding] = {}
        self.in_phase: dict[Phase, dict[Holding, None]] = {phase: {} for phase in Phase}
        self.lines: dict[int, BrokerLine] = {}

    def line(self, broker: BrokerInfo) -> BrokerLine:
        """The line to a broker, made on first use; it follows a change of the broker's address."""
        line = self.lines.setdefault(broker.broker_id, BrokerLine(broker))
        line.info = broker
        return line

    def of_line(self, line: BrokerLine, *phases: Phase) -> list[Holding]:
        """The partitions on that broker in these phases."""
        return [holding for phase in phases for holding in self.in_phase[phase] if holding.line is line]

    def assigned(self) -> list[PartitionKey]:
        """The held partitions, sorted."""
        return sorted(key for key, holding in self.by_key.items() if holding.assigned)

    def has(self, holding: Holding) -> bool:
        """Whether it is the current holding, not a dropped one."""
        return self.by_key.get(holding.key) is holding

    def drop(self, holding: Holding) -> None:
        """Stop holding the partition; answers that still arrive are ignored."""
        holding.become(Phase.GONE)
        if self.has(holding):
            del self.by_key[holding.key]

    def next_idle(self, now_ms: float) -> Holding | None:
        """The partition whose turn it is. None if all are busy, resting or unreachable."""
        for holding in self.in_phase[Phase.IDLE]:
            if holding.rest_until_ms <= now_ms and holding.line.up and not holding.leaving:
                return holding
        return None

    def next_rest_end_ms(self, now_ms: float) -> float | None:
        """When the next resting one may work again; None if none rests."""
        ends = (holding.rest_until_ms for holding in self.in_phase[Phase.IDLE])
        return min((end_ms for end_ms in ends if end_ms > now_ms), default=None)
