"""How even assignments are, and what moves between two of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.assignment_cases import Case, cases
from tubeclient import PartitionKey, assign
from tubeclient.assignment import Balance, Hints, balance, node_of

A, B, C, D = [PartitionKey(1, "clicks", number) for number in range(4)]


def test_balance_counts_partitions_or_rows() -> None:
    assert balance([[A, B, C], [D]]) == Balance(1, 3, 2.0)
    rows = balance([[A, B, C], [D]], {A: 10, D: 30})
    assert (rows, rows.overload) == (Balance(10, 30, 20.0), 1.5)
    assert balance([[], []]).overload == 1


@pytest.mark.parametrize("strategy", ["consistent_hash", "sticky"])
@given(case=cases(max_partitions=30, max_nodes=6), chance=st.randoms(use_true_random=False))
def test_a_lost_nodes_partitions_alone_move(strategy: str, case: Case, chance: random.Random) -> None:
    partitions, source_count, hints = case
    names = [f"n{node}" for node in range(source_count + 1)]
    before = assign(strategy, partitions, source_count + 1, Hints(previous=hints.previous, node_names=names))
    lost = chance.randrange(source_count + 1)
    previous = node_of([keys for node, keys in enumerate(before) if node != lost])
    left = [name for name in names if name != names[lost]]
    after = assign(strategy, partitions, source_count, Hints(previous=previous, node_names=left))
    owners = {key: left[node] for key, node in node_of(after).items()}
    assert {key for key, node in node_of(before).items() if owners[key] != names[node]} == set(before[lost])


def test_how_many_partitions_move_when_a_node_comes() -> None:
    keys = [PartitionKey(1 + number % 5, "clicks", number) for number in range(120)]
    moved = {}
    for name in ("modulo", "averagely", "sticky", "backlog"):
        before = node_of(assign(name, keys, 5, Hints(previous={}, lag=dict.fromkeys(keys, 100))))
        after = node_of(assign(name, keys, 6, Hints(previous=before, lag=dict.fromkeys(keys, 100))))
        moved[name] = sum(before[key] != after[key] for key in keys)
    # 120 / 6 partitions have to move for six equal nodes; by the index it is those whose remainders differ.
    assert (moved["sticky"], moved["modulo"], moved["averagely"]) == (20, 100, 60)
    assert moved["backlog"] <= 20
