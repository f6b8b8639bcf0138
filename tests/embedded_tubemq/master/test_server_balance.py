"""Groups that the master balances: rounds, events and reports, with clients as simple as can be."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.refusal import StandbyRefusal
from embedded_tubemq.master.master import MasterSettings
from embedded_tubemq.master.server_balance import PATIENCE_ROUNDS
from tests.embedded_tubemq.machines import FakeMaster
from tubeclient.wire.methods import Method

ROUND_MS = 3_000
LEASE_MS = 30_000
ALL = {f"1:127.0.0.1:8123#flights:{number}" for number in (0, 1, 2, 3)}


class Client:
    """Does what the master tells it, one heartbeat later."""

    def __init__(self, master: FakeMaster, client_id: str, group: str = "g", **fields: Any) -> None:
        self.master, self.name, self.group = master, client_id, group
        self.held: set[str] = set()
        self.told: list[Any] = []
        self._done: Any = None
        self.register(**fields)

    def register(self, **fields: Any) -> Any:
        fields = {"topicList": ["flights"], "hostName": "host", "subscribeInfo": self.texts()} | fields
        answer = self.master.call(Method.CONSUMER_REGISTER, clientId=self.name, groupName=self.group, **fields)
        self.code = answer.errCode
        return answer

    def texts(self) -> list[str]:
        return [f"{self.name}@{self.group}#{text}" for text in sorted(self.held)]

    def beat(self) -> Any:
        """One heartbeat, with the report of what the last one told; then obeys."""
        report: dict[str, Any] = {"reportSubscribeInfo": False}
        if self._done is not None:
            done = {"rebalanceId": self._done.rebalanceId, "opType": self._done.opType, "status": 2}
            report = {"reportSubscribeInfo": True, "subscribeInfo": self.texts(), "event": done}
        answer = self.master.call(Method.CONSUMER_HEARTBEAT, clientId=self.name, groupName=self.group, **report)
        self._done = answer.event if answer.HasField("event") else None
        if self._done is not None:
            self.told.append(self._done)
            keys = {text.partition("#")[2] for text in self._done.subscribeInfo}
            self.held = self.held | keys if self._done.opType in (1, 10) else self.held - keys
        return answer

    def close(self) -> None:
        self.master.call(Method.CONSUMER_CLOSE, clientId=self.name, groupName=self.group)


@pytest.fixture
def master() -> FakeMaster:
    topics = (TopicConfig("flights", 1, 4), TopicConfig("clicks"))
    fake = FakeMaster(*topics, settings=MasterSettings(balance_period_ms=ROUND_MS))
    fake.machine.tick(fake.now_ms)
    return fake


def rounds(master: FakeMaster, *clients: Client, count: int = 1) -> None:
    """So many rounds, each with enough heartbeats to do what it says."""
    for _ in range(count):
        master.now_ms += ROUND_MS
        for _ in range(6):
            for client in clients:
                client.beat()


def test_nobody_is_told_anything_before_the_first_round(master: FakeMaster) -> None:
    alone = Client(master, "a")
    assert not alone.beat().HasField("event")
    master.now_ms += ROUND_MS - 1
    assert not alone.beat().HasField("event")
    master.now_ms += 1
    answer = alone.beat()
    assert (answer.event.opType, answer.notAllocated) == (10, True)
    assert set(answer.event.subscribeInfo) == {f"a@g#{text}" for text in ALL}
    assert alone.beat().notAllocated is False


def test_the_first_round_divides_in_order_of_names(master: FakeMaster) -> None:
    second, first = Client(master, "b"), Client(master, "a")
    rounds(master, first, second)
    assert (first.held, second.held) == (set(sorted(ALL)[:2]), set(sorted(ALL)[2:]))


def test_who_joins_gets_a_share_after_others_gave_it_up(master: FakeMaster) -> None:
    first = Client(master, "a")
    rounds(master, first)
    assert first.held == ALL
    second = Client(master, "b")
    master.now_ms += ROUND_MS
    assert not second.beat().HasField("event")
    assert first.beat().event.opType == 20
    assert not second.beat().HasField("event")  # the first has not reported yet
    first.beat()
    assert second.beat().event.opType == 10
    assert (len(first.held), first.held | second.held) == (2, ALL)


def test_what_a_client_leaves_goes_to_the_others(master: FakeMaster) -> None:
    first, second = Client(master, "a"), Client(master, "b")
    rounds(master, first, second)
    second.close()
    rounds(master, first)
    assert first.held == ALL


def test_what_a_silent_client_had_goes_to_the_others_after_its_lease(master: FakeMaster) -> None:
    first, silent = Client(master, "a"), Client(master, "b")
    rounds(master, first, silent)
    last_sign_ms = master.now_ms
    while master.now_ms + ROUND_MS < last_sign_ms + LEASE_MS:
        rounds(master, first)
        assert len(first.held) == 2
    rounds(master, first, count=2)
    assert first.held == ALL
    assert silent.master.call(
        Method.CONSUMER_HEARTBEAT, clientId="b", groupName="g", reportSubscribeInfo=False
    ).errCode == (Code.HB_NO_NODE)


def test_a_group_waits_for_a_client_that_does_not_report_only_so_long(master: FakeMaster) -> None:
    deaf, other = Client(master, "a"), Client(master, "b")
    master.now_ms += ROUND_MS
    assert deaf.beat().HasField("event")
    deaf.held.clear()
    deaf._done = None  # it took nothing and does not say so
    for _ in range(PATIENCE_ROUNDS):
        master.now_ms += ROUND_MS
        other.beat()
        assert not deaf.beat().HasField("event")
    assert len(other.held) == 2
    master.now_ms += ROUND_MS
    told = [client.beat().HasField("event") for client in (deaf, other)]
    assert any(told)


def test_nobody_waits_for_what_a_client_that_left_was_told(master: FakeMaster) -> None:
    first = Client(master, "a")
    rounds(master, first)
    second = Client(master, "b")
    master.now_ms += ROUND_MS
    assert first.beat().HasField("event")
    first.close()
    rounds(master, second, count=2)  # its half, which was promised, and then the rest
    assert second.held == ALL


def test_a_restarted_master_learns_what_clients_have(master: FakeMaster) -> None:
    alone = Client(master, "a")
    rounds(master, alone)
    fresh = FakeMaster(TopicConfig("flights", 1, 4), settings=MasterSettings(balance_period_ms=ROUND_MS))
    alone.master = fresh
    assert alone.beat().errCode == Code.HB_NO_NODE
    assert alone.register().notAllocated is False
    told = len(alone.told)
    rounds(fresh, alone, count=3)
    assert (alone.held, len(alone.told)) == (ALL, told)


def test_partitions_of_a_closed_topic_are_given_up(master: FakeMaster) -> None:
    alone = Client(master, "a")
    rounds(master, alone)
    master.catalogue.put_topic(TopicConfig("flights", 1, 4, accept_subscribe=False))
    rounds(master, alone)
    assert alone.held == set()
    assert alone.told[-1].opType == 20


def test_kinds_do_not_mix(master: FakeMaster) -> None:
    assert Client(master, "a").code == Code.SUCCESS
    assert master.join(group="g").errCode == Code.CONSUME_TYPE_CONFLICT
    assert master.join(group="other").errCode == Code.SUCCESS
    assert Client(master, "b", "other").code == Code.CONSUME_TYPE_CONFLICT
    assert not master.machine.order_jump_to_end("g", master.now_ms)


def test_a_standby_tells_nobody_anything(master: FakeMaster) -> None:
    alone = Client(master, "a")
    master.machine.faults.standby = True
    with pytest.raises(StandbyRefusal):
        alone.beat()
    with pytest.raises(StandbyRefusal):
        alone.register()


def test_nonsense_is_a_400(master: FakeMaster) -> None:
    alone = Client(master, "a")
    assert alone.register(subscribeInfo=["nonsense"]).errCode == Code.BAD_REQUEST
    beat = {"clientId": "a", "groupName": "g", "reportSubscribeInfo": True, "subscribeInfo": ["a@g#1:h:1"]}
    assert master.call(Method.CONSUMER_HEARTBEAT, **beat).errCode == Code.BAD_REQUEST


def bound(*offsets: str, count: int = 2, **more: Any) -> dict[str, Any]:
    fields = {"requireBound": True, "sessionKey": "key", "totalCount": count, "notAllocated": True}
    return {**fields, "requiredPartition": ",".join(offsets), **more}


@pytest.mark.parametrize(("select_big", "winner"), [(True, "b"), (False, "a")])
def test_a_bound_group_waits_for_all_and_begins_with_what_they_gave(
    master: FakeMaster, select_big: bool, winner: str
) -> None:
    first = Client(master, "a", **bound("1:flights:0=28", "1:flights:1=28", selectBig=select_big))
    rounds(master, first, count=3)
    assert not first.told
    second = Client(master, "b", **bound("1:flights:0=56", "1:flights:9=0", selectBig=select_big))
    master.now_ms += ROUND_MS
    for client in (first, second):
        client.beat()
    shared, own = (f"1:127.0.0.1:8123#flights:{number}" for number in (0, 1))
    wanted = {"a": {own}, "b": {shared}} if winner == "b" else {"a": {own, shared}, "b": set()}
    assert (first.held, second.held) == (wanted["a"], wanted["b"])
    rounds(master, first, second, count=6)
    assert (len(first.held), first.held | second.held) == (2, ALL)


def test_offsets_of_a_client_that_left_do_not_count(master: FakeMaster) -> None:
    gone = Client(master, "gone", **bound("1:flights:0=56"))
    first = Client(master, "a", **bound())
    gone.close()
    second = Client(master, "b", **bound("1:flights:0=28"))
    master.now_ms += ROUND_MS
    for client in (first, second):
        client.beat()
    assert (first.held, second.held) == (set(), {"1:127.0.0.1:8123#flights:0"})


def test_a_bound_group_without_offsets_is_balanced_like_others(master: FakeMaster) -> None:
    alone = Client(master, "a", **bound())
    rounds(master, alone)
    assert alone.held == ALL


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("jlcb"), st.integers(0, 5)), max_size=25), st.integers(0, 1000))
def test_whatever_members_do_all_is_read_at_last_and_never_twice(steps: list[tuple[str, int]], seed: int) -> None:
    """Clients join, leave, die and beat in any order; the lease of a dead one at the brokers is not looked at here."""
    random.seed(seed)
    master = FakeMaster(TopicConfig("flights", 1, 4), settings=MasterSettings(balance_period_ms=ROUND_MS))
    master.machine.tick(master.now_ms)
    alive: dict[str, Client] = {}
    for what, number in steps:
        name = f"c{number}"
        if what == "j" and name not in alive:
            alive[name] = Client(master, name)
        elif what == "l" and name in alive:
            alive.pop(name).close()
        elif what == "c" and name in alive:  # it dies: the master forgets it later
            del alive[name]
            master.now_ms += LEASE_MS // 2
        else:
            master.now_ms += ROUND_MS // 2
        for client in alive.values():
            if client.beat().errCode == Code.HB_NO_NODE:
                client.register()
            held = [text for one in alive.values() for text in one.held]
            assert len(held) == len(set(held))
    alive.setdefault("last", Client(master, "last"))
    for _ in range(60):
        rounds(master, *alive.values())
    sizes = sorted(len(one.held) for one in alive.values())
    assert sorted(text for one in alive.values() for text in one.held) == sorted(ALL)
    assert sizes[-1] - sizes[0] <= 1
