"""Sides take turns, and what fails is named."""

from __future__ import annotations

import pytest

from bench.rounds import take_turns


def test_every_round_has_every_side_in_turn_and_warm_ups_do_not_count() -> None:
    called: list[str] = []
    said: list[str] = []

    def side(name: str) -> float:
        called.append(name)
        return float(len(called))

    found = take_turns({"a": lambda: side("a"), "b": lambda: side("b")}, warm_ups=1, rounds=2, say=said.append)
    assert called == ["a", "b"] * 3
    assert found == {"a": [3.0, 5.0], "b": [4.0, 6.0]}
    assert said[0].startswith("warm-up: a 1; b 2")
    assert said[2].startswith("round 2 of 2: ")


def test_what_a_side_raises_says_whose_it_is() -> None:
    def fail() -> float:
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost") as caught:
        take_turns({"good": lambda: 1.0, "bad": fail}, warm_ups=0, rounds=1, say=lambda _: None)
    assert caught.value.__notes__ == ["while measuring bad, round 1 of 1"]
