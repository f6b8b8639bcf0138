"""What sets two assignments apart, and what would change if a node or a broker came or went."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.assignment_cases import Case, cases
from tubeclient import PartitionKey, assign
from tubeclient.assignment import (
    STRATEGIES,
    Balance,
    Hints,
    NodeChanges,
    balance,
    broker_added,
    changes,
    node_added,
    node_lost,
)

A, B, C, D, E = KEYS = [PartitionKey(1, "clicks", number) for number in range(5)]


def test_what_changes_is_told_of_each_node() -> None:
    assert changes([[A, B], [C]], [[A, E], [B]]).by_node == {
        "0": NodeChanges(kept=(A,), given_up=(B,), new=(E,)),
        "1": NodeChanges(received=(B,), gone=(C,)),
    }


def test_nodes_are_the_same_by_their_names() -> None:
    found = changes([[A], [B], [C]], [[B], [A, C]], names_before=["x", "y", "z"], names_after=["y", "z"])
    assert found.by_node == {
        "y": NodeChanges(kept=(B,)),
        "z": NodeChanges(kept=(C,), received=(A,)),
        "x": NodeChanges(given_up=(A,)),
    }
    assert (found.kept, found.moved, found.new, found.gone) == (2, 1, 0, 0)
    assert found.churn == pytest.approx(1 / 3)


def test_nothing_there_is_no_churn() -> None:
    assert changes([[]], [[], [A]]).churn == 0
    assert balance([[], []]).overload == 1


def test_balance_counts_partitions_or_rows() -> None:
    assert balance([[A, B, C], [D]]) == Balance(1, 3, 2.0)
    rows = balance([[A, B, C], [D]], {A: 10, D: 30})
    assert (rows, rows.overload) == (Balance(10, 30, 20.0), 1.5)


@given(case=cases(), chance=st.randoms(use_true_random=False))
def test_each_partition_is_counted_once(case: Case, chance: random.Random) -> None:
    partitions, source_count, hints = case
    before = assign("config", partitions, source_count, hints)
    left = [key for key in partitions if chance.random() < 0.7]
    after = assign("modulo", [*left, PartitionKey(0, "new", 0)], chance.randint(1, 9))
    found = changes(before, after)
    assert found.kept + found.moved == len(left)
    assert (found.new, found.gone) == (1, len(partitions) - len(left))
    assert found.moved == sum(len(of_node.given_up) for of_node in found.by_node.values())


WITHOUT_PLAN = sorted(STRATEGIES.keys() - {"config"})


@pytest.mark.parametrize("strategy", WITHOUT_PLAN)
@given(case=cases(max_partitions=30), chance=st.randoms(use_true_random=False))
def test_what_if_is_the_difference_of_two_deals(strategy: str, case: Case, chance: random.Random) -> None:
    partitions, source_count, hints = case
    named = Hints(
        previous=hints.previous,
        lag=hints.lag,
        rooms=hints.rooms,
        node_rooms={**(hints.node_rooms or {}), source_count: "east"},
        node_names=[f"n{node}" for node in range(source_count)],
    )
    more = node_added(strategy, partitions, source_count, named)
    assert list(more.by_node) == [*(named.node_names or ()), "new"]
    assert (more.kept + more.moved, more.new, more.gone) == (len(partitions), 0, 0)
    like_it = [key for key in partitions if key.broker_id == max(partitions).broker_id]
    wider = broker_added(strategy, partitions, source_count, named)
    assert (wider.kept + wider.moved, wider.new, wider.gone) == (len(partitions), len(like_it), 0)
    if source_count > 1:
        lost = chance.randrange(source_count)
        fewer = node_lost(strategy, partitions, source_count, lost, named)
        assert (fewer.kept + fewer.moved, fewer.new, fewer.gone) == (len(partitions), 0, 0)
        assert not fewer.by_node[f"n{lost}"].kept


KEEPERS = ["consistent_hash", "sticky"]


@pytest.mark.parametrize("strategy", KEEPERS)
@given(case=cases(max_partitions=30, max_nodes=6), chance=st.randoms(use_true_random=False))
def test_a_lost_nodes_partitions_alone_move(strategy: str, case: Case, chance: random.Random) -> None:
    partitions, source_count, hints = case
    lost = chance.randrange(source_count + 1)
    found = node_lost(strategy, partitions, source_count + 1, lost, hints)
    assert found.moved == len(found.by_node[str(lost)].given_up)


def test_churn_of_each_strategy_when_a_node_comes() -> None:
    keys = [PartitionKey(1 + number % 5, "clicks", number) for number in range(120)]
    hints = Hints(previous={}, lag=dict.fromkeys(keys, 100), rooms=dict.fromkeys(range(1, 6), "only"))
    moved = {name: node_added(name, keys, 5, hints).moved for name in ("modulo", "averagely", "sticky", "backlog")}
    # 120 / 6 partitions have to move for six equal nodes; by the index it is those whose remainders differ.
    assert moved["sticky"] == 20
    assert moved["modulo"] == 100
    assert moved["backlog"] <= 20
    assert node_added("averagely", keys, 5, hints).churn == 0.5
