"""assignmentStrategy and assignmentHints: what they may say, and that partitions are assigned so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from spark_source.plan.batch_plan import PartitionAssignment
from tubeclient.assignment import STRATEGIES, Assignment, Hints, assign
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

KEYS = [PartitionKey(broker_id, "clicks", number) for broker_id in (1, 2) for number in range(3)]


def options(**given: str) -> SourceOptions:
    return parse_options(
        {"masterservers": "localhost:8715", "consumergroup": "etl", "subscribe": "clicks", "sourcecount": "2", **given}
    )


def assigned(chosen: SourceOptions) -> Sequence[Sequence[PartitionKey]]:
    """The partitions of each of two nodes, at a group's first start."""
    hints = replace(chosen.assignment_hints, previous={}, lag={})
    return PartitionAssignment.of(chosen.assignment_strategy, KEYS, 2, hints).by_node


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_are_offered(strategy: str) -> None:
    hints = f'{{"rooms": {{"1": "a", "2": "a"}}, "nodeRooms": {{"0": "a", "1": "a"}}, "plan": {plan_of(KEYS)}}}'
    by_node = assigned(options(assignmentstrategy=strategy, assignmenthints=hints))
    assert sorted(key for node in by_node for key in node) == KEYS


def plan_of(keys: Sequence[PartitionKey]) -> str:
    return json.dumps({str(key): int(key == KEYS[4]) for key in keys})


def test_hints_reach_the_strategy() -> None:
    by_room = options(
        assignmentstrategy="machine_room_nearby",
        assignmenthints='{"rooms": {"1": "west", "2": "east"}, "nodeRooms": {"0": "east", "1": "west"}}',
    )
    assert assigned(by_room) == [KEYS[3:], KEYS[:3]]
    planned = options(assignmentstrategy="config", assignmenthints=f'{{"plan": {plan_of(KEYS)}}}')
    assert assigned(planned) == [[*KEYS[:4], KEYS[5]], [KEYS[4]]]
    ring = options(assignmentstrategy="consistent_hash", assignmenthints='{"virtualNodes": 1}')
    assert assigned(ring) == assign("consistent_hash", KEYS, 2, Hints(virtual_nodes=1))


def all_to_the_last(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    return [*([] for _ in range(source_count - 1)), list(keys)]


def test_a_strategy_of_ones_own() -> None:
    named = options(assignmentstrategy=f" {__name__}:all_to_the_last ")
    assert assigned(named) == [[], KEYS]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"assignmentstrategy": "stick"},
            "option assignmentStrategy is 'stick'; write one of averagely, .*sticky, or package.module:function",
        ),
        ({"assignmentstrategy": f"{__name__}:none"}, "has no none"),
        ({"assignmentstrategy": "machine_room"}, "machine_room needs the hint rooms"),
        *(
            ({"assignmenthints": text}, "option assignmentHints is '.*'; write JSON of rooms")
            for text in (
                "east",
                '{"room": {}}',
                '{"rooms": ["east"]}',
                '{"rooms": {"1": 7}}',
                '{"plan": {"1:clicks:0": true}}',
                '{"virtualNodes": 0}',
            )
        ),
        ({"assignmenthints": '{"nodeRooms": {"first": "east"}}'}, "has the id 'first'; write a whole number"),
        ({"assignmenthints": '{"plan": {"clicks:0": 1}}'}, "'clicks:0' is not a partition key"),
        ({"assignmenthints": '{"rooms": {"1": "a", "1": "b"}}'}, "assignmentHints names '1' twice"),
    ],
)
def test_what_is_wrong_is_said_at_load(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        options(**given)
