"""Strategies say what they go by, and go by nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tubeclient.assignment import STRATEGIES, Assignment, Hint, Hints, hints_of
from tubeclient.keys import PartitionKey

NODES = 3
KEYS = [PartitionKey(broker, "clicks", number) for broker in (1, 2) for number in range(4)]
NODE_IDS = st.integers(0, NODES - 1)
ROOMS = st.sampled_from(["east", "west"])
HINTS: dict[Hint, st.SearchStrategy[Any]] = {
    Hint.PREVIOUS: st.dictionaries(st.sampled_from(KEYS), NODE_IDS),
    Hint.LAG: st.dictionaries(st.sampled_from(KEYS), st.integers(0, 100)),
    Hint.ROOMS: st.fixed_dictionaries({1: ROOMS, 2: ROOMS}),
    Hint.NODE_ROOMS: st.fixed_dictionaries(dict.fromkeys(range(NODES), ROOMS)),
    Hint.PLAN: st.fixed_dictionaries(dict.fromkeys(KEYS, NODE_IDS)),
    Hint.NODE_NAMES: st.permutations(["a", "b", "c"]),
    Hint.VIRTUAL_NODES: st.integers(1, 20),
}
ALL = st.fixed_dictionaries({str(hint): values for hint, values in HINTS.items()}).map(lambda values: Hints(**values))


def test_every_hint_can_be_gone_by() -> None:
    assert [field.name for field in fields(Hints)] == list(Hint)


@settings(max_examples=40, deadline=None)
@given(hints=ALL, others=ALL)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_goes_by_no_other_hint_than_it_says(name: str, hints: Hints, others: Hints) -> None:
    changed = {str(hint): getattr(others, hint) for hint in Hint if hint not in hints_of(name)}
    assert changed
    strategy = STRATEGIES[name]
    assert strategy(KEYS, NODES, replace(hints, **changed)) == strategy(KEYS, NODES, hints)


def all_to_the_first(keys: Any, source_count: int, _: Hints) -> Assignment:
    return [list(keys), *([] for _ in range(source_count - 1))]


def test_a_strategy_that_does_not_say_may_go_by_all() -> None:
    assert hints_of(f"{__name__}:all_to_the_first") == frozenset(Hint)
