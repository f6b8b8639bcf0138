"""Where a range read ends although its broker would let it go on for ever, and what is called lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.common.catalogue import NOBODY, Peer
from tests.tubeclient.stored import records_of
from tests.tubeclient.test_read_range import Bench
from tubeclient.errors import CorruptMessage, DataLoss, DeadlineExceeded
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, partitions=2, seed=1)


def instead(broker: Broker, method: Method, change: Callable[[Any, int], None], *, after: int = 0) -> None:
    """Change the answers to `method` from the one after so many on; `change` is told how many there were."""
    handle, seen = broker.handle, 0

    def answer(asked: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message:
        nonlocal seen
        answered = handle(asked, request, now_ms, peer)
        if asked is method:
            seen += 1
            if seen > after:
                answered = type(answered).FromString(answered.SerializeToString())
                change(answered, seen)
        return answered

    broker.handle = answer  # type: ignore[assignment,method-assign]


def empty_at(start: int) -> Callable[[Any, int], None]:
    def change(answer: Any, _: int) -> None:
        answer.CopyFrom(broker_pb2.GetMessageResponseB2C(success=True, errCode=200, currOffset=start))

    return change


def slow_down(answer: Any, _: int) -> None:
    answer.CopyFrom(
        broker_pb2.GetMessageResponseB2C(success=False, errCode=452, errMsg="slow", currOffset=-1, minLimitTime=200)
    )


@pytest.mark.parametrize("change", [empty_at(0), slow_down])
def test_a_broker_that_gives_nothing_for_ever_is_given_up(bench: Bench, change: Callable[[Any, int], None]) -> None:
    bench.append(50)
    instead(bench.broker, Method.GET_MESSAGES, change)
    with pytest.raises(
        DeadlineExceeded, match=r"no progress for [56] s reading 1:clicks:0\[0, 1400\) at 0 .*(404|452)"
    ):
        bench.read(bench.range(0, 0, 50), retry_limit_ms=5_000)
    assert bench.simulation.calls.count(Method.GET_MESSAGES) < 100


def test_a_tail_that_is_lost_while_it_is_read_is_data_loss_and_not_waited_for(bench: Bench) -> None:
    bench.append(50)

    def lose(_: Any, seen: int) -> None:
        if seen == 1:
            bench.store.truncate(20 * 28)

    instead(bench.broker, Method.PARTITION_REGISTER, lose)
    before = bench.simulation.now_ms
    with pytest.raises(DataLoss, match=r"data ends before it.* has 560"):
        bench.read(bench.range(0, 0, 50))
    assert bench.simulation.now_ms - before < 5_000


@pytest.mark.parametrize("partitions", [1, 3])
def test_all_but_the_place_can_be_read_as_the_error_says(tmp_path: Path, partitions: int) -> None:
    """In a store of one partition that is the message alone."""
    bench = Bench(tmp_path, partitions, 1)
    bench.append(300)
    whole = bench.range(0, 0, 300)
    victim = [one for one in records_of(bench.store, 0, 300 * 28) if one.partition_id == 0][40]

    def damage(answer: Any, _: int) -> None:
        for one in answer.messages:
            one.checkSum ^= one.messageId == victim.message_id

    instead(bench.broker, Method.GET_MESSAGES, damage)
    with pytest.raises(CorruptMessage, match=f"the message with id {victim.message_id} does not match") as caught:
        bench.read(whole)
    start, end = (int(text) for text in str(caught.value).split("offsets [")[1].split(")")[0].split(", "))
    assert start <= victim.index_offset < end
    assert partitions > 1 or end - start == 28
    around = bench.range(0, 0, start // 28), bench.range(0, end // 28, 300)
    read = [body for piece in around for pack in bench.read(piece) for body in pack.columns.payloads]
    assert victim.payload not in read
    assert partitions > 1 or read == [body for body in bench.expected(whole) if body != victim.payload]
