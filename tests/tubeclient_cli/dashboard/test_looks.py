"""Looks that fail, hang and recover."""

from __future__ import annotations

import threading

from tubeclient_cli.dashboard.looks import Incomplete, Look


def test_an_answer_stays_when_the_next_look_fails_and_the_failure_is_said() -> None:
    answers = iter([1, 0, 2])

    def ask() -> int:
        if answer := next(answers):
            return answer
        raise OSError("no route")

    look = Look("table", "/t", ask, str, period_s=0, deadline_s=60)
    found: list[tuple[int | None, str | None]] = [(look.answer, look.source.failure)]
    for _ in range(3):
        look.begin()
        look.wait(30)
        found.append((look.answer, look.source.failure))
    assert found == [(None, None), (1, None), (1, "no route"), (2, None)]
    assert look.source.as_of_ms is not None


def test_a_look_that_hangs_is_one_thread_and_a_failure_past_its_deadline() -> None:
    go, calls = threading.Event(), []

    def ask() -> int:
        calls.append(1)
        go.wait(60)
        return 5

    look = Look("table", "/t", ask, str, period_s=0, deadline_s=0)
    for _ in range(5):
        look.begin()
    look.wait(0)
    assert (len(calls), look.answer) == (1, None)
    assert str(look.source.failure).startswith("no answer for")
    go.set()
    look.wait(30)
    assert (look.answer, look.source.failure) == (5, None)


def test_nothing_is_asked_more_often_than_its_period() -> None:
    calls: list[int] = []
    look = Look("table", "/t", lambda: calls.append(1), str, period_s=3_600, deadline_s=60)
    for _ in range(3):
        look.begin()
        look.wait(30)
    assert len(calls) == 1


def test_what_could_be_read_is_the_answer_beside_the_failure() -> None:
    def ask() -> int:
        raise Incomplete(5, "one is left out")

    look: Look[int] = Look("table", "/t", ask, str, period_s=0, deadline_s=60)
    look.begin()
    look.wait(30)
    assert (look.answer, look.source.failure) == (5, "one is left out")
    assert look.source.as_of_ms is not None
