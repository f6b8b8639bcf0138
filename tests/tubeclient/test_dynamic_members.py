"""Consumers that share their group's partitions by its live clients: members that come and go, masters that forget."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.reading import Reader, Writer, counted
from tests.tubeclient.test_pull_consumer import Moves
from tests.waiting import wait_for
from tubeclient import (
    Admin,
    ClientSettings,
    PullConsumer,
    assign,
)

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


def test_members_come_and_go(settings: ClientSettings, start: Start) -> None:
    """Each message is read once while members come and go."""
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
    wait_for(lambda: all(consumer._sharing and not consumer._sharing.settling for consumer in members), "it to settle")
    wait_for(shared(*members), "all to share again")
    assert (moves.assigned, moves.revoked) == ([], [])
    assert [consumer.registered() for consumer in members] == before


def test_no_master_lists_members(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Members share partitions as before while no master lists the live clients."""
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
