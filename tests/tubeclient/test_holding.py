"""What may happen to a partition that is held leaves it, and the queue of all of them, in a state that makes sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tubeclient.flows.effects import Ticket
from tubeclient.flows.holding import Doubt, Holding, Lease, OpenFetch, PackOut, Phase
from tubeclient.flows.holdings import Holdings
from tubeclient.keys import BrokerInfo, PartitionKey

KEYS = [PartitionKey(broker, "clicks", number) for broker in (1, 2) for number in (0, 1)]
WHICH = st.integers(0, len(KEYS) - 1)
OFFSETS = st.integers(0, 20).map(lambda entries: entries * 28)
PAUSES = st.sampled_from([0.0, 5.0, 50.0])


Rule = TypeVar("Rule", bound=Callable[..., None])
MOSTLY = st.sampled_from([True, True, True, False])


def if_any(*phases: Phase) -> Callable[[Rule], Rule]:
    """The rule is tried only if a partition is in one of these phases: most steps are to do something."""
    return precondition(lambda self: any(holding.phase in phases for holding in self.all))


class Transitions(RuleBasedStateMachine):
    """The partitions of a consumer, to which anything happens that can happen to them."""

    @initialize()
    def begin(self) -> None:
        self.holdings = Holdings()
        self.now = 1.0
        self.packs = 0
        self.ended: set[int] = set()
        self.leases: dict[Holding, Lease] = {}
        self.fetches: list[tuple[Holding, OpenFetch]] = []
        self.all: list[Holding] = []
        for key in KEYS:
            line = self.holdings.line(BrokerInfo(key.broker_id, "127.0.0.1", 8123))
            self.all.append(self.holdings.hold(key, line, frozenset(), [key]))

    def one(self, number: int, *phases: Phase) -> Holding | None:
        """One of those in these phases."""
        there = [holding for holding in self.all if holding.phase in phases]
        return there[number % len(there)] if there else None

    @if_any(Phase.IDLE, Phase.FETCHING, Phase.DELIVERED)
    @rule(number=WHICH)
    def registering_begins(self, number: int) -> None:
        self.all[number].registers()

    @if_any(Phase.REGISTERING, Phase.GONE)
    @rule(number=WHICH, start=OFFSETS, end=OFFSETS, doubtful=st.booleans())
    def it_is_registered(self, number: int, start: int, end: int, doubtful: bool) -> None:
        """Even where it was given back meanwhile."""
        holding = self.one(number, Phase.REGISTERING, Phase.GONE)
        if holding is not None:
            doubt = Doubt(start) if doubtful else None
            holding.registered(start, end, now_ms=self.now, wall_ms=self.now, connection=1, doubt=doubt)
            assert (holding.confirmed, holding.expected, holding.noted) == (start, start, False)

    @if_any(Phase.REGISTERING)
    @rule(number=WHICH)
    def registering_is_interrupted(self, number: int) -> None:
        holding = self.one(number, Phase.REGISTERING)
        if holding is not None:
            holding.lost_track()
            assert holding.expected is None

    @precondition(lambda self: self.packs)  # else hardly any pack would come
    @precondition(lambda self: self.packs)  # one that leaves is not fetched from again
    @rule(number=WHICH, end=st.booleans())
    def it_leaves(self, number: int, end: bool) -> None:
        holding = self.all[number]
        holding.leaves()
        if end:
            self.holdings.drop(holding)
            self.ended.add(number)
            assert not self.holdings.has(holding)

    @if_any(Phase.IDLE)
    @rule(rest=PAUSES, sent=MOSTLY, data=st.data())
    def the_next_one_fetches(self, rest: float, sent: bool, data: st.DataObject) -> None:
        """Alone, or in the same write as a commit. What is not sent at once is sent later, or not."""
        self.now += rest
        committing = data.draw(st.sampled_from([None, *self.leases]))
        holding = self.holdings.next_idle(self.now, committing)
        assert self.holdings.next_idle(self.now, committing) is holding, "looking takes no turn"
        if holding is not None:
            assert not holding.committing or holding is committing, "it might overtake the commit"
            assert committing is None or holding.line is committing.line
            assert holding.phase is Phase.IDLE
            assert not holding.leaving
            assert holding.line.up
            assert not self.holdings.is_written(holding)
            assert holding.key not in self.holdings.unanswered
            fetch = OpenFetch(Ticket(object()) if sent else None)
            holding.fetches(fetch)
            if not sent:
                self.fetches.append((holding, fetch))
            assert holding.noted

    @precondition(lambda self: self.fetches)
    @rule(data=st.data(), sent=MOSTLY)
    def a_fetch_is_sent_or_not(self, data: st.DataObject, sent: bool) -> None:
        """Whatever happened meanwhile."""
        holding, fetch = self.fetches.pop(data.draw(st.integers(0, len(self.fetches) - 1)))
        before = (holding.phase, holding.fetch)
        if sent:
            fetch.ticket = Ticket(object())
        else:
            holding.fetch_given_up(fetch)
        if before[1] is not fetch:
            assert (holding.phase, holding.fetch) == before

    @if_any(Phase.FETCHING)
    @rule(number=WHICH, start=OFFSETS, count=st.integers(0, 3), rest=PAUSES, doubtful=st.booleans())
    def a_pack_comes(self, number: int, start: int, count: int, rest: float, doubtful: bool) -> None:
        holding = self.one(number, Phase.FETCHING)
        if holding is None or holding.answer is None:
            return
        holding.answered()
        doubt = holding.doubt
        holding.reached(start, start, wall_ms=self.now, sent_ms=self.now, doubtful=doubtful)
        assert holding.doubt == (doubt or (Doubt(start) if doubtful else None))
        if not count:
            holding.found_nothing(self.now, self.now + rest, commit_next=True, at=start)
            assert (holding.commit_next, holding.noted, holding.empty_at) == (True, False, start)
            return
        self.packs += 1
        end = holding.confirmed + count * 28
        holding.delivered(PackOut(self.packs, end, self.now + 100, self.now + rest))
        assert holding.position.fetched == end

    @if_any(Phase.FETCHING)
    @rule(number=WHICH, rest=PAUSES)
    def a_fetch_fails(self, number: int, rest: float) -> None:
        holding = self.one(number, Phase.FETCHING)
        if holding is not None:
            holding.refused(self.now + rest)
            assert holding.expected is None
            assert not holding.commit_next

    @if_any(Phase.DELIVERED)
    @rule(number=WHICH)
    def nobody_confirms_it(self, number: int) -> None:
        holding = self.one(number, Phase.DELIVERED)
        if holding is not None:
            holding.pack_given_up()
            assert holding.expected == holding.confirmed

    @if_any(Phase.DELIVERED)
    @rule(number=WHICH)
    def it_is_committed(self, number: int) -> None:
        holding = self.one(number, Phase.DELIVERED)
        if holding is not None and holding not in self.leases:
            self.leases[holding] = holding.lease
            holding.commits(self.now)
            holding.was_sent(1, 1)
            holding.commit_sent(self.leases[holding])
            assert holding.is_asked_for

    @precondition(lambda self: self.leases)
    @rule(position=OFFSETS, known=st.booleans())
    def a_commit_is_answered(self, position: int, known: bool) -> None:
        holding, lease = self.leases.popitem()
        if known and holding.is_under(lease):
            holding.committed(position, position, wall_ms=self.now)
            assert holding.expected == holding.confirmed == position
        self.holdings.turns.committing.discard(holding)

    @rule(number=WHICH, up=MOSTLY)
    def its_broker_goes_or_comes(self, number: int, up: bool) -> None:
        self.all[number].line.up = up

    @rule(number=WHICH, answered=MOSTLY)
    def something_is_not_answered(self, number: int, answered: bool) -> None:
        self.holdings.unanswered.add(KEYS[number])
        if answered:
            self.holdings.unanswered.discard(KEYS[number])

    @invariant()
    def each_is_in_the_place_of_its_phase(self) -> None:
        turns = self.holdings.turns
        for holding in self.all:
            waits = holding.phase is Phase.IDLE and not holding.leaving
            assert (holding in turns._waiting) == waits
            assert (holding in turns.fetching) == (holding.fetch is not None) == (holding.phase is Phase.FETCHING)
            assert (holding in turns.delivered) == (holding.out is not None) == (holding.phase is Phase.DELIVERED)

    @invariant()
    def positions_make_sense(self) -> None:
        for holding in self.all:
            assert holding.position.fetched == (holding.out.end if holding.out else holding.confirmed)
            assert holding.is_registered == (holding.confirmed >= 0)

    @invariant()
    def what_is_gone_stays_so(self) -> None:
        for number in self.ended:
            assert self.all[number].phase is Phase.GONE
            assert self.all[number].leaving

    @invariant()
    def none_waits_for_ever(self) -> None:
        """Each one that waits has its turn, once the others have had theirs and its rest is over."""
        turns = self.holdings.turns
        entries = {(number, one) for number, one in turns._ready} | {(number, one) for _, number, one in turns._resting}
        assert {(number, one) for one, number in turns._waiting.items()} <= entries


TestTransitions: Any = Transitions.TestCase
TestTransitions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_pack_shows_that_an_interrupted_registration_arrived() -> None:
    """From then on its lease is kept."""
    holdings = Holdings()
    holding = holdings.hold(KEYS[0], holdings.line(BrokerInfo(1, "127.0.0.1", 8123)), frozenset(), KEYS[:1])
    holding.registers()
    holding.lost_track()
    holding.fetches(OpenFetch(Ticket(object())))
    assert not holding.is_registered
    holding.answered()
    holding.reached(56, 280, wall_ms=1.0, sent_ms=1.0, doubtful=False)
    assert (holding.is_registered, holding.confirmed, holdings.registered()) == (True, 56, [KEYS[0]])
