"""Sides take turns, what fails is named, and the table compares with the first side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bench.measuring import BEGIN, END, Results, put_between
from bench.streaming import arrivals, arrived_ms


def test_every_round_has_every_side_in_turn_and_warm_ups_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    said: list[str] = []
    results = Results(rounds=2, warm_ups=1, scale=0.5, say=said.append)

    def side(name: str) -> Mapping[str, float]:
        called.append(name)
        return {"rows/s": 1_000.0 * len(called)}

    results.take_turns("reading", {"ours": lambda: side("ours"), "peer": lambda: side("peer")})
    assert called == ["ours", "peer"] * 3
    assert [(one.who, one.values) for one in results.figures] == [("ours", (3_000, 5_000)), ("peer", (4_000, 6_000))]
    assert said[0].startswith("reading, warm-up: ours 1,000; peer 2,000")
    monkeypatch.setattr(Results, "about", lambda _: "this machine")
    assert results.markdown().splitlines()[-2:] == [
        "| reading | ours | rows/s | 3 000 | 4 000 | 5 000 |  |",
        "| reading | peer | rows/s | 4 000 | 5 000 | 6 000 | 1.25 |",
    ]


def test_what_a_side_raises_says_whose_it_is() -> None:
    def fail() -> Mapping[str, float]:
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost") as caught:
        Results(rounds=1, warm_ups=0, scale=1, say=lambda _: None).take_turns("reading", {"bad": fail})
    assert caught.value.__notes__ == ["while measuring reading: bad, round 1 of 1"]


def test_the_table_comes_between_the_marks_of_the_page() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert put_between(page, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    with pytest.raises(ValueError, match="the page needs the lines"):
        put_between("before", "new")


def test_a_row_arrives_with_its_batch_when_all_is_over_but_the_note_of_it() -> None:
    def progress(timestamp: str, rows: int, **durations: int) -> dict[str, Any]:
        return {"timestamp": timestamp, "numInputRows": rows, "durationMs": durations}

    one = progress("1970-01-01T00:00:10.250Z", 1, triggerExecution=300, addBatch=200, walCommit=40, commitOffsets=50)
    assert arrived_ms(one) == 10_250 + 300 - 50
    told = [
        progress("1970-01-01T00:00:01.000Z", 2, triggerExecution=10),
        progress("1970-01-01T00:00:02.000Z", 0, triggerExecution=1),
        progress("1970-01-01T00:00:03.000Z", 1, triggerExecution=20),
    ]
    assert arrivals(told) == [1_010, 1_010, 3_020]
