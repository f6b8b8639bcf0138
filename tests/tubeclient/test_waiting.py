"""What callers wait with: interrupted at any place, it does not stay locked for those who settle it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from threading import Thread

import pytest

from tests.tubeclient.interrupting import interrupted_at
from tubeclient.net.waiting import Outcome

LOOKS: dict[str, Callable[[Outcome[int]], object]] = {
    "done": lambda outcome: outcome.done(),
    "running": lambda outcome: outcome.running(),
    "add_done_callback": lambda outcome: outcome.add_done_callback(print),
    "result": lambda outcome: outcome.result(0),
    "exception": lambda outcome: outcome.exception(0),
}


def in_another_thread(call: Callable[[], object]) -> None:
    thread = Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("name", sorted(LOOKS))
def test_wherever_a_look_at_an_outcome_is_interrupted_it_can_be_settled_and_read(name: str, settled: bool) -> None:
    place, interrupts = 0, True
    while interrupts:
        outcome: Outcome[int] = Outcome()
        if settled:
            outcome.set_result(7)
        interrupts = False
        with suppress(FutureTimeout):
            interrupts = interrupted_at(place, lambda: LOOKS[name](outcome))  # noqa: B023  # called at once
        if not settled:
            in_another_thread(lambda: outcome.set_result(7))  # noqa: B023
        in_another_thread(outcome.result)
        assert outcome.result(0) == 7
        place += 1
    assert place > 2


def test_outcomes_can_be_waited_for_as_other_futures_can() -> None:
    first, second = outcomes = [Outcome[int]() for _ in range(2)]

    def settle() -> None:
        first.set_result(1)
        second.set_exception(KeyError("x"))

    thread = Thread(target=settle)
    thread.start()
    assert wait(outcomes, 20).not_done == set()
    thread.join(20)
    assert isinstance(second.exception(0), KeyError)


def test_an_outcome_that_is_done_has_its_result_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may look between the moment it is done and the one in which waiters wake."""
    monkeypatch.setattr(Outcome, "_invoke_callbacks", lambda self: None)
    outcome = Outcome[int]()
    outcome.set_result(7)
    assert outcome.done()
    assert outcome.result(0) == 7


def test_an_outcome_has_all_that_a_future_of_this_python_has() -> None:
    """It is not made by Future's own __init__; a newer Python's may set more."""
    future, outcome = vars(Future()), vars(Outcome())
    assert outcome.keys() - {"_gates"} == future.keys()
    assert {name: outcome[name] for name in future if name != "_condition"} == {
        name: value for name, value in future.items() if name != "_condition"
    }
