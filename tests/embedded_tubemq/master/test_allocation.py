"""Who reads which partition: what holds for all groups, whatever the dice say."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq.master.allocation import Allocation, first_allocation, next_allocation, required_allocation
from embedded_tubemq.master.balance_events import planned_events
from tubeclient.keys import PartitionKey

TOPICS = ("clicks", "flights")
keys = st.builds(PartitionKey, st.integers(1, 3), st.sampled_from(TOPICS), st.integers(0, 5))
partitions = st.frozensets(keys, max_size=24)
clients = st.frozensets(st.sampled_from("abcdef"), min_size=1)
seeds = st.integers(0, 1000)


def flat(wanted: Allocation) -> list[PartitionKey]:
    return sorted(key for held in wanted.values() for key in held)


def spread(wanted: Allocation) -> int:
    sizes = [len(held) for held in wanted.values()]
    return max(sizes) - min(sizes)


def chooser(seed: int) -> random.Random:
    return random.Random(seed)


@given(clients, partitions)
def test_the_first_round_gives_each_topic_away_evenly_and_whole(
    who: frozenset[str], offered: frozenset[PartitionKey]
) -> None:
    wanted = first_allocation(who, offered)
    assert set(wanted) == who
    assert flat(wanted) == sorted(offered)
    for topic in TOPICS:
        of_topic = {client: [key for key in held if key.topic == topic] for client, held in wanted.items()}
        assert spread(of_topic) <= 1
        # In order: who comes first by name gets the first partitions.
        assert [key for client in sorted(of_topic) for key in of_topic[client]] == sorted(
            key for key in offered if key.topic == topic
        )


@st.composite
def holdings(draw: st.DrawFn) -> dict[str, list[PartitionKey] | None]:
    """Of some clients, each partition at most once; some clients have not reported."""
    held: dict[str, list[PartitionKey] | None] = {}
    left = draw(st.permutations([PartitionKey(b, t, n) for b in (1, 2, 3) for t in TOPICS for n in range(3)]))
    for client in sorted(draw(clients)):
        count = draw(st.integers(0, len(left)))
        held[client] = draw(st.sampled_from((left[:count], None)))
        left = left[count:]
    return held


def rest_of(held: Iterable[list[PartitionKey] | None]) -> set[PartitionKey]:
    return {key for one in held for key in one or ()}


@given(holdings(), partitions, seeds)
def test_a_round_keeps_what_is_held_where_something_is_free(
    held: dict[str, list[PartitionKey] | None], offered: frozenset[PartitionKey], seed: int
) -> None:
    wanted = next_allocation(held, offered, chooser(seed).randrange)
    assert set(wanted) == set(held)
    assert len(flat(wanted)) == len(set(flat(wanted)))
    assert set(flat(wanted)) <= offered
    if offered - rest_of(held.values()):
        for client, had in held.items():
            assert offered & set(had or ()) <= set(wanted[client])
            assert had is not None or not wanted[client]
        if any(had is not None for had in held.values()):
            assert set(flat(wanted)) == offered


@given(clients, partitions, holdings(), seeds)
def test_rounds_come_to_an_even_share_and_then_rest(
    who: frozenset[str],
    offered: frozenset[PartitionKey],
    start: dict[str, list[PartitionKey] | None],
    seed: int,
) -> None:
    held: dict[str, list[PartitionKey]] = {client: list(start.get(client) or ()) for client in who}
    choose = chooser(seed).randrange
    for _ in range(400):  # chance may take some; each round has one in six at least
        wanted = next_allocation(held, offered, choose)
        if wanted == held:
            break
        held = wanted
    assert flat(held) == sorted(offered)
    assert spread(held) <= 1
    assert next_allocation(held, offered, choose) == {client: sorted(keys) for client, keys in held.items()}


@given(holdings(), partitions, seeds)
def test_events_turn_what_is_held_into_what_is_wanted(
    held: dict[str, list[PartitionKey] | None], offered: frozenset[PartitionKey], seed: int
) -> None:
    wanted = next_allocation(held, offered, chooser(seed).randrange)
    planned = planned_events(7, held, wanted)
    for client, keys in wanted.items():
        has = set(held[client] or ())
        events = planned.get(client, [])
        assert [event.gives_up for event in events] in ([], [True], [False], [True, False])
        alone = [event.kind.name.startswith("ONLY") for event in events]
        assert alone == [len(events) == 1] * len(events)
        for event in events:
            assert event.partitions
            assert event.round_id == 7
            assert set(event.partitions) <= has if event.gives_up else has.isdisjoint(event.partitions)
            has = has - set(event.partitions) if event.gives_up else has | set(event.partitions)
        assert has == set(keys)


def test_a_client_one_short_of_the_most_counts_as_full() -> None:
    """Four clients, eleven partitions, 5 2 2 2: two are given up, and nobody gets them before the next round."""
    numbers = [PartitionKey(1, "flights", number) for number in range(11)]
    held = {"a": numbers[:5], "b": numbers[5:7], "c": numbers[7:9], "d": numbers[9:]}
    wanted = next_allocation(held, numbers, lambda count: 0)
    assert wanted == held | {"a": numbers[2:5]}
    assert next_allocation(wanted, numbers, lambda count: 1) == wanted | {"b": numbers[5:7] + numbers[:2]}


def test_required_partitions_go_to_those_who_gave_their_offsets() -> None:
    one, two, three = (PartitionKey(1, "flights", number) for number in range(3))
    required = {two: "b", one: "a", three: "gone"}
    assert required_allocation("ab", required, [one, two, three]) == {"a": [one], "b": [two]}
    assert required_allocation("ab", required, [two]) == {"b": [two]}
