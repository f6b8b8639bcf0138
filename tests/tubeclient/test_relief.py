"""Members that give partitions up because they are slow: a group's model by the second, and real flows on brokers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.tubeclient.consuming import Bench, Client
from tubeclient.assignment import assign
from tubeclient.assignment.relief import Observed, Progress, Relief
from tubeclient.errors import StalePack
from tubeclient.flows.effects import Flow, Now, Sleep
from tubeclient.flows.registrar import Assigned
from tubeclient.keys import PartitionKey

BALANCE_S = 20
WINDOW_S = 60
FREE_S = 30


def relief(name: str) -> Relief:
    return Relief(name, window_ms=WINDOW_S * 1000, free_ms=FREE_S * 1000)


# By the second


@dataclass
class Member:
    name: str
    rate: float
    """Rows that it can confirm in a second; 0 if its application stands still."""
    phase: int
    owned: set[PartitionKey] = field(default_factory=set)
    wanted: set[PartitionKey] = field(default_factory=set)


class Group:
    """Partitions that get `inflow` rows a second, a broker that gives each to one member, and a page that is late."""

    def __init__(self, rates: list[float], partitions: int, inflow: Callable[[int], float], seed: int = 1) -> None:
        self.chance = random.Random(seed)
        self.keys = [PartitionKey(1, "clicks", number) for number in range(partitions)]
        self.inflow = inflow
        self.members = [Member(f"m{n}", rate, self.chance.randrange(BALANCE_S)) for n, rate in enumerate(rates)]
        self.reliefs = {one.name: relief(one.name) for one in self.members}
        self.committed, self.end = dict.fromkeys(self.keys, 0.0), dict.fromkeys(self.keys, 0.0)
        self.now = 0
        self.pages: list[dict[PartitionKey, str]] = [{}]
        self.moves = 0
        self.free_s: Counter[PartitionKey] = Counter()
        self.longest_free_s = 0

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            for number, key in enumerate(self.keys):
                self.end[key] += self.inflow(number)
            for member in self.members:
                left = member.rate  # partitions take turns, so each has its part of it, and what others leave
                unread = sorted(member.owned, key=lambda key: self.end[key] - self.committed[key])
                for number, key in enumerate(unread):
                    done = min(left / (len(unread) - number), self.end[key] - self.committed[key])
                    self.committed[key] += done
                    left -= done
                if self.now % BALANCE_S == member.phase:
                    self._balance(member)
                member.owned |= {key for key in member.wanted if not self.owners(key)}  # it tries all the time
            self.pages.append({key: self.owners(key)[0] for key in self.keys if self.owners(key)})
            for key in self.keys:
                self.free_s[key] = 0 if self.owners(key) else self.free_s[key] + 1
            self.longest_free_s = max(self.longest_free_s, *self.free_s.values())
            assert all(len(self.owners(key)) <= 1 for key in self.keys)

    def owners(self, key: PartitionKey) -> list[str]:
        return [one.name for one in self.members if key in one.owned]

    def _balance(self, member: Member) -> None:
        names = sorted(one.name for one in self.members)
        share = assign("modulo", self.keys, len(names))[names.index(member.name)]
        progress = {key: Progress(int(self.committed[key]) * 28, int(self.end[key]) * 28) for key in self.keys}
        page = self.pages[-1 - self.chance.randrange(min(3, len(self.pages)))]
        look = Observed(names, page, progress)
        wanted = self.reliefs[member.name].wanted(self.keys, share, look, self.now * 1000, is_polled=member.rate > 0)
        self.moves += len(member.owned - wanted)
        member.owned &= wanted
        member.wanted = wanted

    def counts(self) -> list[int]:
        return [len(one.owned) for one in self.members]


SEEDS = range(examples(6))


@pytest.mark.parametrize("seed", SEEDS)
def test_while_all_keep_up_nothing_moves(seed: int) -> None:
    chance = random.Random(seed)
    group = Group([40, 40, 40], 8, lambda _: chance.choice([0, 5, 20]) if chance.random() < 0.5 else 0, seed)
    group.run(3_600)
    assert (group.moves, sorted(group.counts())) == (0, [2, 3, 3])


@pytest.mark.parametrize("seed", SEEDS)
def test_who_catches_up_gives_nothing_away(seed: int) -> None:
    group = Group([100, 100, 100], 9, lambda _: 5, seed)
    group.run(200)
    for key in group.members[0].owned:
        group.end[key] += 10_000
    group.run(1_800)
    assert group.moves == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_member_that_confirms_nothing(seed: int) -> None:
    """A member that confirms nothing gives up all its partitions, and others read them."""
    group = Group([0, 100, 100, 100], 16, lambda _: 5, seed)
    group.run(120)
    group.run(WINDOW_S + 2 * BALANCE_S + FREE_S)
    assert group.counts()[0] == 0
    assert sum(group.counts()) == 16
    assert max(group.counts()) <= 7  # nobody takes all
    assert group.longest_free_s <= 2 * BALANCE_S + FREE_S
    group.run(3_600)
    assert group.moves == 4
    assert all(group.end[key] - group.committed[key] < 5 * BALANCE_S for key in group.keys)


@pytest.mark.parametrize("seed", SEEDS)
def test_share_of_slow_member(seed: int) -> None:
    """A slow member has as many partitions as it keeps up with and at least one."""
    group = Group([12, 100, 100], 12, lambda _: 5, seed)
    group.run(1_800)
    assert group.counts()[0] == 2
    assert all(group.end[key] - group.committed[key] < 5 * BALANCE_S for key in group.keys)
    hopeless = Group([2, 100, 100], 12, lambda _: 5, seed)
    hopeless.run(1_800)
    assert hopeless.counts()[0] == 1
    behind = [key for key in hopeless.keys if hopeless.end[key] - hopeless.committed[key] > 5 * BALANCE_S]
    assert {name for key in behind for name in hopeless.owners(key)} == {"m0"}


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_stop(seed: int) -> None:
    """Moves stop if all members are slow or if a partition is too much for any member."""
    group = Group([5, 5, 5], 9, lambda _: 5, seed)
    group.run(1_800)  # as long as one does not lag by a window yet, it seems to keep up
    before = group.moves
    assert before <= 3
    group.run(3_600)
    assert group.moves == before
    group = Group([50, 50, 50], 9, lambda number: 80 if number == 0 else 2, seed)
    group.run(1_800)
    before = group.moves
    group.run(3_600)
    assert group.moves == before
    assert [key for key in group.keys if group.end[key] - group.committed[key] > 2 * BALANCE_S] == group.keys[:1]


@pytest.mark.parametrize("seed", SEEDS)
def test_members_that_stall_and_resume(seed: int) -> None:
    """No partition is without a reader for long while members stall and resume."""
    group, chance = Group([20] * 4, 12, lambda _: 5, seed), random.Random(seed)
    for _ in range(60):
        chance.choice(group.members).rate = chance.choice([0, 0, 1, 20, 100])
        group.run(chance.randrange(200))
    assert group.longest_free_s <= 2 * BALANCE_S + FREE_S


def test_change_of_members() -> None:
    """A change of the members starts again from the shares."""
    keys = [PartitionKey(1, "clicks", number) for number in range(4)]
    one = relief("a")
    stands = {key: Progress(0, 280) for key in keys}

    def wanted(members: list[str], now_s: int) -> set[PartitionKey]:
        owners = dict.fromkeys(keys[:2], "a") | dict.fromkeys(keys[2:], "b")
        progress = stands | dict.fromkeys(keys[2:], Progress(280, 280))
        return one.wanted(keys, keys[:2], Observed(members, owners, progress), now_s * 1000, is_polled=True)

    assert wanted(["a", "b"], 0) == set(keys[:2])
    assert wanted(["a", "b"], 61) == set()
    assert wanted(["a", "b"], 62) == set()
    assert wanted(["a", "b", "c"], 63) == set(keys[:2])


def test_partition_taken_for_good() -> None:
    """A member no longer asks for a partition that another member has taken for good."""
    keys = [PartitionKey(1, "clicks", number) for number in range(2)]
    one, look = relief("a"), Observed(["a", "b"], {keys[0]: "a", keys[1]: "b"})
    assert one.wanted(keys, keys, look, 0, is_polled=True) == set(keys)
    assert one.wanted(keys, keys, look, 29_000, is_polled=True) == set(keys)
    assert one.wanted(keys, keys, look, 30_000, is_polled=True) == {keys[0]}


@pytest.mark.parametrize("is_polled", [True, False])
def test_who_asks_for_no_messages_takes_nothing_over(is_polled: bool) -> None:
    """It has nothing that it could fall behind with, so it seems to keep up."""
    key = PartitionKey(1, "clicks", 0)
    one, stands = relief("b"), {key: Progress(0, 280)}
    for now_s, owners in ((0, {key: "a"}), (60, {key: "a"}), (61, {}), (76, {})):
        wanted = one.wanted([key], [], Observed(["a", "b"], owners, stands), now_s * 1000, is_polled=is_polled)
    assert wanted == ({key} if is_polled else set())


# On brokers


class Watched(Client):
    """A client whose every new partition must be nobody else's, by their own books."""

    peers: list[Watched]
    pause_ms: float = 10

    def handle(self, event: Any) -> None:
        if isinstance(event, Assigned):
            for peer in self.peers:
                assert peer is self or event.partition not in peer.registrar.holdings.by_key, event
        super().handle(event)

    def work(self, got: list[tuple[PartitionKey, bytes]]) -> Flow[None]:
        """As fast as `pause_ms` for a pack."""
        while not self.bench.over:
            delivery = yield from self.fetcher.get(timeout_ms=1_000)
            if delivery is None:
                continue
            until = (yield Now()) + self.pause_ms
            while (yield Now()) < until and not self.bench.over:
                yield Sleep(1_000 if until - (yield Now()) > 1_000 else until - (yield Now()))
            try:
                yield from self.fetcher.confirm(delivery, consumed=True)
            except StalePack:
                continue
            got += [(delivery.partition, body) for body in delivery.bodies]

    def share(self) -> Flow[None]:
        """Balance every 20 s or so, by what the group showed up to a second before."""
        bench, name = self.bench, self.registrar.plan.client_id
        names = sorted(peer.registrar.plan.client_id for peer in self.peers)
        mine, keys = relief(name), bench.view.partitions()
        while not bench.over:
            owners = {key: peer.registrar.plan.client_id for peer in self.peers for key in peer.held()}
            yield Sleep(bench.simulation.random.random() * 1_000)
            progress = {
                key: Progress(bench.committed(key) or 0, bench.store(key).max_offset) for key in bench.view.partitions()
            }
            now = yield Now()
            share = assign("modulo", keys, len(names))[names.index(name)]
            is_polled = yield from self.fetcher.is_polled(WINDOW_S * 1000)
            ours = mine.wanted(keys, share, Observed(names, owners, progress), now, is_polled=is_polled)
            yield from self.registrar.balance(bench.view, ours, {}, release_wait_ms=500)
            yield Sleep(BALANCE_S * 1000 * (0.9 + bench.simulation.random.random() / 5))


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), stores=st.integers(2, 5), clients=st.integers(2, 4), workers=st.integers(1, 2))
def test_slow_members_on_brokers(
    tmp_path_factory: pytest.TempPathFactory, seed: int, stores: int, clients: int, workers: int
) -> None:
    """Each message is confirmed once and each partition has one owner, whoever is slow."""
    bench = Bench(tmp_path_factory.mktemp("slow"), brokers=2, partitions=1, stores=stores, seed=seed)
    got: list[tuple[PartitionKey, bytes]] = []
    members = [Watched(bench, f"client-{number}") for number in range(clients)]
    for member in members:
        member.peers = members
        flows = [member.share(), *(member.work(got) for _ in range(workers))]
        member.actors = [bench.simulation.start(flow, on_event=member.handle) for flow in flows]  # type: ignore[attr-defined]
    for _ in range(12):
        bench.random.choice(members).pause_ms = bench.random.choice([10, 10, 30_000, 600_000])
        for _ in range(20):
            bench.send(4)
            bench.simulation.run(3_000)
    for member in members:
        member.pause_ms = 10
    bench.run_until_read(got, 900_000)
    for actor in (actor for member in members for actor in member.actors):  # type: ignore[attr-defined]
        if actor.error is not None:
            raise actor.error
    assert Counter(got) == Counter(bench.sent)
