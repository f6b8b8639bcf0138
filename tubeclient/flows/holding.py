"""The partitions of a consumer, and the events that change them. No I/O, no clock. Times are ms of a monotonic clock.

Each method of a holding is an event, and leaves a consistent state, even if its caller is interrupted.
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

    REGISTERING = "registering"
    IDLE = "idle"
    FETCHING = "fetching"
    DELIVERED = "delivered"
    GONE = "gone"


@dataclass(eq=False, slots=True)
class BrokerLine:
    """A broker with held partitions, and whether it answers."""

    info: BrokerInfo
    up: bool = True
    kept: bool = False
    """A thread keeps the leases of the partitions on it."""

    @property
    def signal(self) -> str:
        """Wakes the thread that keeps its leases."""
        return f"broker {self.info.broker_id}"


class Lease(NamedTuple):
    """A registration."""

    number: int = 0
    """Counts the registrations, from 1; requests from before the present one do not count any more."""
    connection: int | None = None
    """The connection over which the broker last confirmed the registration."""


class Doubt(NamedTuple):
    """From `start` on it is unknown whether the broker still has the data of the index's entries."""

    start: int
    may_be_new: bool = False
    """The group may have had no position before. Then it was never to read what is older than the first message."""


class PackOut(NamedTuple):
    """A delivered, unconfirmed pack."""

    number: int
    end: int
    """The index offset where it ends at the earliest."""
    overdue_ms: float
    """When it is given up."""
    resume_ms: float = 0.0
    """Flow control: no fetch before this time, once it is confirmed; 0 for at once."""


@dataclass(eq=False, slots=True)
class OpenFetch:
    """A fetch that was not dealt with. It counts as long as its holding has it."""

    ticket: Ticket | None = None
    """Stands for its answer. None until it was sent."""
    sent_ms: float = 0.0
    """When it was sent. The broker read soon after that, however long the answer waits here."""
    taken: bool = False
    """A thread already waits for its answer."""


@dataclass(eq=False, slots=True)
class Holding:
    """A partition that is held, or about to be."""

    key: PartitionKey
    line: BrokerLine
    filters: frozenset[str]
    siblings: Sequence[PartitionKey]
    """All partitions that share its store's index."""
    all: Holdings
    phase: Phase = Phase.REGISTERING
    leaving: bool = False
    """It is being released. No more fetches are sent."""
    lease: Lease = field(default_factory=Lease)
    confirmed: int = -1
    """The group's position, -1 before the first registration."""
    end: int = -1
    updated_ms: float = 0.0
    read_ms: float = 0.0
    """When the fetch of the last pack was sent, or it registered. What comes behind was not seen since."""
    doubt: Doubt | None = None
    lost_to: int = 0
    """Up to there it is known since the registration what expired."""
    at_first: bool = False
    """It began at the store's first entry, and had no message since. What lacks before its first one is no loss."""
    expected: int | None = None
    """Where the next pack must begin if nothing expired. None if the position may have moved unseen."""
    commit_next: bool = False
    """The next fetch commits what the last one skipped."""
    noted: bool = False
    """The broker may have noted a fetch whose messages are not confirmed."""
    fetch: OpenFetch | None = None
    """Set while FETCHING."""
    asked: bool = False
    """A fetch was to be sent that was not answered, even if its answer does not count any more."""
    out: PackOut | None = None
    """Set while DELIVERED."""
    sent_over: int | None = None
    """The connection over which the last request went. None if that is not sure."""
    empty_ms: float = 0.0
    """Time of the last answer without messages."""
    empty_at: int = -1
    """Where the last pack without messages began."""
    failures: int = 0
    """Refused fetches in a row."""
    pace: PartitionPace = field(default_factory=PartitionPace)
    damage: DamageCheck = field(default_factory=DamageCheck)
    check: PackCheck = field(default_factory=PackCheck)

    @property
    def position(self) -> Position:
        """How far it has been read."""
        fetched = self.confirmed if self.out is None else self.out.end
        return Position(self.confirmed, fetched, self.end, self.updated_ms)

    @property
    def is_registered(self) -> bool:
        """Whether the broker ever accepted a registration."""
        return self.lease.number > 0

    def is_under(self, lease: Lease) -> bool:
        """Whether it was not registered again since that registration."""
        return self.lease.number == lease.number

    @property
    def committing(self) -> bool:
        """Whether a commit of it is open."""
        return self in self.all.committing

    @property
    def is_asked_for(self) -> bool:
        """Whether a fetch or a commit of it may still reach the broker."""
        return self.phase is not Phase.GONE and (self.committing or self.asked)

    @property
    def answer(self) -> Ticket | None:
        """The ticket of its open fetch. None if nobody else may take the answer now."""
        return None if self.fetch is None or self.fetch.taken or self.committing else self.fetch.ticket

    # Registering, and the end

    def registers(self) -> None:
        """It is about to register again; all current work becomes stale."""
        if self.phase is not Phase.GONE:
            self._become(Phase.REGISTERING)
            self.all.leave(self)

    def registered(
        self,
        start: int,
        end: int,
        *,
        now_ms: float,
        wall_ms: float,
        connection: int | None,
        doubt: Doubt | None,
        at_first: bool = False,
        moved: bool = True,
    ) -> None:
        """It registered: the group's position is `start`, and the broker has noted nothing. What was in doubt before is
        so still, unless it was `moved` there."""
        if moved or not self.is_registered or start < self.confirmed:
            self.doubt, self.at_first, self.lost_to = doubt, at_first, 0
        elif self.doubt is None and not self.at_first:
            self.doubt = doubt
        self.lease = Lease(self.lease.number + 1, connection)
        self.line.up = True
        self.confirmed, self.end, self.updated_ms = start, max(end, start), wall_ms
        self.read_ms = now_ms
        self.expected, self.commit_next, self.noted, self.failures = start, False, False, 0
        self.asked = False
        self.rest()

    def leaves(self) -> None:
        """It is being released; its unconfirmed pack may still be confirmed."""
        self.leaving = True
        if self.phase in (Phase.IDLE, Phase.FETCHING):
            self.rest()

    def ends(self) -> None:
        """It is no longer held; answers that still arrive are ignored."""
        self.all.leave(self)
        self.phase, self.fetch, self.out, self.leaving = Phase.GONE, None, None, True

    # Fetching

    def rest(self, until_ms: float = 0.0) -> None:
        """Allow fetches from `until_ms` on; all current work becomes stale."""
        if self.phase is Phase.GONE:
            return
        if self.leaving:
            self.all.leave(self)
        else:
            self.all.wait(self, until_ms)
        self._become(Phase.IDLE)  # last: one that is idle waits for its turn, even if this is interrupted

    def fetches(self, fetch: OpenFetch) -> None:
        """This fetch is about to be sent."""
        self._become(Phase.FETCHING, fetch=fetch)
        self.all.leave(self)
        self.all.fetching[self] = None
        self.noted = self.asked = True

    def fetch_given_up(self, fetch: OpenFetch) -> None:
        """The fetch was not sent, or nobody knows. If it was, a commit with the next one would cover what it read."""
        if self.fetch is fetch:
            self.commit_next = False
            self.rest()

    def lost_track(self, rest_until_ms: float = 0.0) -> None:
        """It is not known how far a fetch has moved the group. The next one repeats it."""
        self.expected, self.commit_next = None, False
        self.rest(rest_until_ms)

    def refused(self, rest_until_ms: float) -> None:
        """A fetch was refused for now."""
        self.failures += 1
        self.lost_track(rest_until_ms)

    def answered(self) -> None:
        """The broker ran a fetch, including the commit that came with it."""
        self.failures, self.commit_next = 0, False

    def reached(self, start: int, end: int, *, wall_ms: float, sent_ms: float, doubtful: bool) -> None:
        """A pack begins at `start`; the broker may have skipped entries of other partitions. Its fetch was sent at
        `sent_ms`. `doubtful`: data may have expired there."""
        if not self.is_registered:  # the caller was interrupted before it heard of the first registration
            self.lease = Lease(1)
        self.confirmed, self.end, self.updated_ms = max(self.confirmed, start), max(self.end, end), wall_ms
        self.read_ms = sent_ms
        if doubtful:
            self.doubts(start)

    def doubts(self, start: int) -> None:
        """From `start` on, data may have expired."""
        if self.doubt is None and not self.at_first:
            self.doubt = Doubt(max(start, self.lost_to))

    @property
    def is_alone(self) -> bool:
        """Whether each entry of its store's index should give one of its messages."""
        return len(self.siblings) == 1 and not self.filters

    def found_nothing(self, now_ms: float, rest_until_ms: float, *, commit_next: bool, at: int | None = None) -> None:
        """There were no messages: no pack, or an empty one that began `at` this offset."""
        self.noted, self.empty_ms = False, now_ms
        if at is not None:
            self.empty_at = at
        self.lost_track(rest_until_ms)
        self.commit_next = commit_next

    def has_gap(self, expected: int, start: int) -> None:
        """A pack begins at `start`, behind where the group stood. It is fetched again."""
        if self.doubt is None or self.doubt.may_be_new:
            self.doubt = Doubt(expected)
        self.lost_track()
        self.expected = start

    def delivered(self, out: PackOut) -> None:
        """A pack was delivered."""
        self._become(Phase.DELIVERED, out=out)
        self.all.leave(self)
        self.all.delivered[self] = None

    def pack_given_up(self) -> None:
        """Nobody confirmed the pack in time, or got it: it will be read again."""
        self.expected, self.commit_next = self.confirmed, False
        self.rest()

    def doubt_settled(self, *, at_first: bool = False) -> None:
        """It is known what had expired. `at_first`: the group had no position before."""
        self.doubt, self.at_first = None, at_first

    # Confirming

    def commits(self, now_ms: float) -> None:
        """The delivered pack is about to be committed. The commit is open until the holding is taken out of
        `all.committing`. Until then a fetch may follow only in the same write."""
        assert self.out is not None
        self.all.committing.add(self)
        self.rest(self.out.resume_ms if self.out.resume_ms > now_ms else 0.0)

    def commit_sent(self, lease: Lease) -> None:
        """The commit was sent, under this lease. If a fetch followed it, the broker notes that one."""
        if self.phase is Phase.IDLE and self.is_under(lease):
            self.noted = False

    def committed(self, position: int, end: int, *, wall_ms: float) -> None:
        """The broker returned the group's position after the commit."""
        self.confirmed, self.end, self.updated_ms = position, max(end, position), wall_ms
        self.expected = position

    def _become(self, phase: Phase, *, fetch: OpenFetch | None = None, out: PackOut | None = None) -> None:
        self.phase, self.fetch, self.out = phase, fetch, out


class Holdings:
    """All partitions of one consumer, by key. Idle ones take turns."""

    def __init__(self) -> None:
        self.by_key: dict[PartitionKey, Holding] = {}
        self.lines: dict[int, BrokerLine] = {}
        self.unanswered: set[PartitionKey] = set()
        """Partitions with requests that were not answered and may still reach the broker."""
        self.writes: dict[object, list[Holding]] = {}
        """The partitions of each write of fetches and commits that is under way."""
        self.fetching: dict[Holding, None] = {}
        """Those with an open fetch, the oldest first."""
        self.delivered: dict[Holding, None] = {}
        """Those with an unconfirmed pack, the oldest first."""
        self.committing: set[Holding] = set()
        """Those with an open commit. No answer to a fetch is taken before the commit's."""
        self._waiting: dict[Holding, float] = {}
        """Idle ones, in the order of their turns, and until when each rests."""

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
        holding = self.by_key[key] = Holding(key, line, filters, siblings, self)
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

    def leave(self, holding: Holding) -> None:
        """It neither waits nor works."""
        self._waiting.pop(holding, None)
        self.fetching.pop(holding, None)
        self.delivered.pop(holding, None)

    def wait(self, holding: Holding, rest_until_ms: float) -> None:
        """It waits behind the others for its turn, which comes at that time or later."""
        self._waiting[holding] = rest_until_ms  # first: if this is interrupted, it waits, or is where it was
        self.fetching.pop(holding, None)
        self.delivered.pop(holding, None)

    def next_rest_end_ms(self, now_ms: float) -> float | None:
        """When the next resting one may work again; None if none rests."""
        return min((until_ms for until_ms in self._waiting.values() if until_ms > now_ms), default=None)

    def next_idle(self, now_ms: float, committing: Holding | None = None) -> Holding | None:
        """The partition whose turn it is. None if all are busy, resting or unreachable.

        With `committing`, for a fetch in the same write as the commit of that partition: None also if it is the turn
        of one on another broker.
        """
        for holding, until_ms in self._waiting.items():
            if until_ms <= now_ms and self._is_usable(holding, committing):
                return holding if committing is None or holding.line is committing.line else None
        return None

    def _is_usable(self, holding: Holding, committing: Holding | None) -> bool:
        """Whether a fetch of it may be sent. While a commit of it is open, only in the write of that commit: another
        write may go over a new connection and overtake the commit, which would then cover what the fetch noted.
        """
        behind_commit = holding.committing and holding is not committing
        is_free = not behind_commit and not self.is_written(holding)
        return holding.line.up and is_free and holding.key not in self.unanswered
