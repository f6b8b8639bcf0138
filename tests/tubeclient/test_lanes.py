"""Flows side by side: none waits for another, all of them end, and none is left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from tubeclient import ClientSettings, DeadlineExceeded
from tubeclient.flows.effects import Emit, Flow, Receive, Sleep, Ticket
from tubeclient.net.lanes import Lanes
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner, Pending
from tubeclient.wire.envelope import encode_response
from tubeclient.wire.framing import Frame
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

METHOD = Method.COMMIT_OFFSET


@pytest.fixture
def runner() -> Iterator[FlowRunner]:
    pool = ConnectionPool(ClientSettings(("127.0.0.1:1",)))
    yield FlowRunner(pool)
    pool.close()


def pending(future: Future[Frame], seconds: float = 30.0) -> Ticket:
    deadline = time.monotonic() + seconds
    return Ticket(Pending("127.0.0.1:1", METHOD, METHOD.spec.response, future, round(seconds * 1000), deadline))


def settle(future: Future[Frame], offset: int) -> None:
    answer = broker_pb2.CommitOffsetResponseB2C(success=True, errCode=200, errMsg="", currOffset=offset)
    future.set_result(Frame(0, encode_response(METHOD.spec.method_id, answer.SerializeToString())))


def waiting_for(ticket: Ticket) -> Flow[None]:
    response = yield Receive(ticket)
    yield Emit(response.currOffset)


def counting(name: str, closed: list[str]) -> Flow[None]:
    try:
        for number in range(3):
            yield Emit(f"{name}{number}")
            yield Sleep(1)
    finally:
        closed.append(name)


def nothing_more() -> None:
    pass


def test_each_goes_on_when_its_own_answer_is_there(runner: FlowRunner) -> None:
    futures: list[Future[Frame]] = [Future() for _ in range(3)]
    lanes: Lanes[int] = Lanes(runner, nothing_more)
    for number, future in enumerate(futures):
        lanes.add(number, waiting_for(pending(future)))
    found = iter(lanes)
    for number in (1, 2, 0):
        settle(futures[number], number * 28)
        assert next(found) == (number, number * 28)
    assert list(found) == []
    assert lanes.running == []


def test_an_answer_that_does_not_come_is_an_error_in_its_flow_alone(runner: FlowRunner) -> None:
    def patient() -> Flow[None]:
        try:
            yield Receive(pending(Future(), 0.05))
        except DeadlineExceeded:
            yield Emit("gave up")

    lanes: Lanes[str] = Lanes(runner, nothing_more)
    lanes.add("patient", patient())
    lanes.add("busy", counting("busy", []))
    assert sorted(lanes) == [("busy", "busy0"), ("busy", "busy1"), ("busy", "busy2"), ("patient", "gave up")]


def test_one_that_slept_goes_on_however_much_the_others_have_to_do(runner: FlowRunner) -> None:
    def busy() -> Flow[None]:
        while True:
            future: Future[Frame] = Future()
            settle(future, 0)
            yield Receive(pending(future))
            yield Emit("busy")

    lanes: Lanes[str] = Lanes(runner, nothing_more)
    lanes.add("busy", busy())
    lanes.add("slept", counting("slept", []))
    until = time.monotonic() + 20
    seen = [value for key, value in iter_until(lanes, "slept2", until) if key == "slept"]
    assert seen == ["slept0", "slept1", "slept2"]
    lanes.close()


def iter_until(lanes: Lanes[str], last: str, until: float) -> Iterator[tuple[str, Any]]:
    for item in lanes:
        yield item
        if item[1] == last or time.monotonic() > until:
            return


def test_what_one_raises_ends_all_and_close_closes_the_others(runner: FlowRunner) -> None:
    def failing() -> Flow[None]:
        yield Sleep(1)
        raise DeadlineExceeded("no more")

    closed: list[str] = []
    lanes: Lanes[str] = Lanes(runner, nothing_more)
    kept = counting("a", closed)  # else it would be closed with the last reference to it
    lanes.add("a", kept)
    lanes.add("failing", failing())
    with pytest.raises(DeadlineExceeded, match="no more"):
        for _ in lanes:
            pass
    assert lanes.running == ["a"]
    assert closed == []
    lanes.close()
    assert (lanes.running, closed) == ([], ["a"])


def test_flows_are_added_where_there_is_time(runner: FlowRunner) -> None:
    left = ["b", "c"]

    def more() -> None:
        if left and len(lanes.running) < 2:
            name = left.pop(0)
            lanes.add(name, counting(name, []))

    lanes: Lanes[str] = Lanes(runner, more)
    lanes.add("a", counting("a", []))
    found = [value for _, value in lanes]
    assert sorted(found) == [f"{name}{number}" for name in "abc" for number in range(3)]
    assert found.index("c0") > min(found.index("a2"), found.index("b2"))
