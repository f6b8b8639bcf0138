"""Consumers that share their group's partitions by its live clients: members that come and go, masters that forget."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.reading import Reader, Writer, counted
from tests.tubeclient.test_pull_following import Moves
from tests.waiting import wait_for
from tubeclient import (
    Admin,
    ClientSettings,
    PartitionKey,
    PullConsumer,
    TransportError,
    assign,
)
from tubeclient.consumers.group import GroupMembership

Start = Callable[..., PullConsumer]


@pytest.fixture
def start(settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start()`: a running member of group etl, closed after the test."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 500)
    with ExitStack() as stack:

        def make(**options: Any) -> PullConsumer:
            given = {
                "membership": "dynamic",
                "start_from": "earliest",
                "balance_interval_ms": 200,
                "metadata_interval_ms": 200,
                **options,
            }
            return stack.enter_context(PullConsumer(settings, "etl", ["clicks"], **given))

        yield make


def shared(*consumers: PullConsumer, strategy: str = "modulo") -> Callable[[], bool]:
    """Whether these are the members, and each has what is its share."""
    order = sorted(consumers, key=lambda consumer: consumer.consumer_id)
    ids = tuple(consumer.consumer_id for consumer in order)
    shares = assign(strategy, consumers[0].partitions(), len(order))

    def are_so() -> bool:
        return [consumer.registered() for consumer in order] == shares and all(
            consumer.members == ids for consumer in order
        )

    return are_so


def test_members_come_and_go_and_each_message_is_read_once(settings: ClientSettings, start: Start) -> None:
    with Writer(settings, "clicks") as writer, ExitStack() as reading:
        members: list[PullConsumer] = []
        readers: list[Reader] = []
        for _ in range(3):
            members.append(start())
            readers.append(reading.enter_context(Reader(members[-1])))
            wait_for(shared(*members), f"{len(members)} members to share")
        before = [len(reader.read) for reader in readers]
        wait_for(
            lambda: all(len(reader.read) > count for reader, count in zip(readers, before, strict=True)),
            "each of them to read",
        )
        fourth = start()
        with Reader(fourth) as leaving:
            wait_for(shared(*members, fourth), "four members to share")
        fourth.close()
        wait_for(shared(*members), "three to share what it had")
        readers.append(leaving)
        writer.stop()
        wait_for(lambda: counted(readers).total() >= len(writer.sent), "all messages to be read")
    assert counted(readers) == Counter(writer.sent)


def test_a_master_that_forgot_everybody_moves_nothing(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, start: Start
) -> None:
    moves = Moves()
    members = [start(**moves.callbacks) for _ in range(3)]
    wait_for(shared(*members), "all to share")
    before = [consumer.registered() for consumer in members]
    moves.clear()
    for _ in range(3):
        cluster.restart_master()
        wait_for(lambda: len(Admin(settings).group("etl").members) == 3, "the master to know them again")
    wait_for(
        lambda: all(consumer._sharing and not consumer._sharing.settling_ms for consumer in members), "it to settle"
    )
    wait_for(shared(*members), "all to share again")
    assert (moves.assigned, moves.revoked) == ([], [])
    assert [consumer.registered() for consumer in members] == before


NEVER_MS = 3_600_000


@pytest.fixture
def no_heartbeat(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members report what they hold; other reasons to call the master do not come within a test."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", NEVER_MS)


def reported(settings: ClientSettings, members: list[PullConsumer]) -> Callable[[], bool]:
    """Whether the master knows what each of them holds."""
    held = {consumer.consumer_id: tuple(consumer.registered()) for consumer in members}
    return lambda: {each.client_id: each.partitions for each in Admin(settings).group("etl").members} == held


def test_a_member_that_was_not_listed_soon_looks_again(
    cluster: EmbeddedTubeMQ, start: Start, no_heartbeat: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PullConsumer, "_was_forgotten", lambda _: None)  # another reason to look
    stays, leaves = (start(metadata_interval_ms=NEVER_MS, balance_interval_ms=NEVER_MS) for _ in range(2))
    stays.rebalance()
    wait_for(shared(stays, leaves), "both to share")
    leaves.close()
    cluster.restart_master()
    stays._due.set()
    wait_for(shared(stays), "the one that is left to have all")


@pytest.mark.parametrize("balancing_seconds", [0, 0.7])
def test_a_member_that_was_forgotten_looks_at_once_and_again_when_others_had_time_to_come_back(
    cluster: EmbeddedTubeMQ,
    settings: ClientSettings,
    start: Start,
    no_heartbeat: None,
    monkeypatch: pytest.MonkeyPatch,
    balancing_seconds: float,
) -> None:
    """Also if balancing lasts longer than others have time: 1.5 heartbeats."""
    report = GroupMembership.report

    def reports_late(membership: GroupMembership, held: Mapping[int, Sequence[PartitionKey]]) -> None:
        time.sleep(balancing_seconds)
        report(membership, held)

    monkeypatch.setattr(GroupMembership, "report", reports_late)
    member = start(metadata_interval_ms=NEVER_MS, balance_interval_ms=NEVER_MS)
    wait_for(shared(member), "one to have all")
    # A report that came after the restart would be the heartbeat by which it learns that it was forgotten.
    wait_for(reported(settings, [member]), "the last report")
    cluster.restart_master()
    newcomer = start(metadata_interval_ms=NEVER_MS, balance_interval_ms=NEVER_MS)
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 300)
    assert member._life.running is not None
    member._life.running.membership.check_in()
    wait_for(shared(member, newcomer), "both to share")


def test_members_that_are_known_again_before_others_give_nothing_back_yet(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, start: Start, no_heartbeat: None
) -> None:
    moves = Moves()
    members = [start(metadata_interval_ms=NEVER_MS, balance_interval_ms=60_000, **moves.callbacks) for _ in range(3)]
    for consumer in members:
        consumer.rebalance()
    wait_for(shared(*members), "all to share")
    wait_for(reported(settings, members), "the last reports")
    moves.clear()
    cluster.restart_master()
    late, *early = sorted(members, key=lambda consumer: consumer.consumer_id)
    for consumer in early:
        assert consumer._life.running is not None
        consumer._life.running.membership.check_in()
    wait_for(lambda: len(Admin(settings).group("etl").members) == 2, "two to be known again")
    for consumer in early:
        consumer.rebalance()
    wait_for(lambda: all(len(consumer.members) == 2 for consumer in early), "both to see two members")
    late.rebalance()
    wait_for(lambda: len(Admin(settings).group("etl").members) == 3, "the third one to be known again")
    for consumer in early:
        consumer.rebalance()
    wait_for(shared(*members), "all to share again")
    assert (moves.assigned, moves.revoked) == ([], [])


def test_while_no_master_says_who_is_there_partitions_are_shared_as_before(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    members = [start() for _ in range(2)]
    wait_for(shared(*members), "both to share")
    caplog.set_level(logging.WARNING)
    cluster.master_faults.standby = True
    wait_for(
        lambda: caplog.text.count("assuming that its live clients have not changed") >= 2, "both to miss the master"
    )
    cluster.stop_broker(1, clean=True)
    cluster.start_broker(1)
    with ExitStack() as reading:
        for consumer in members:
            reading.enter_context(Reader(consumer))
        wait_for(shared(*members), "both to have the restarted broker's partitions again")
    cluster.master_faults.standby = False


def test_without_the_masters_web_port_there_is_no_start(settings: ClientSettings) -> None:
    consumer = PullConsumer(replace(settings, master_web_port=1), "etl", ["clicks"], membership="dynamic")
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:1"):
        consumer.start()
    assert consumer.closed
    assert Admin(settings).group("etl").members == ()
