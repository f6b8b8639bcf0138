"""Partitions, groups and hints for assignment tests, as hypothesis strategies."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from tubeclient import PartitionKey
from tubeclient.assignment import Hints

keys = st.builds(
    PartitionKey, st.integers(1, 2**31), st.text("abcXYZ_-9", min_size=1, max_size=8), st.integers(0, 50_000)
)


class Case(NamedTuple):
    """Something to assign, with every hint that a strategy may need."""

    partitions: list[PartitionKey]
    source_count: int
    hints: Hints


@st.composite
def cases(
    draw: st.DrawFn, max_partitions: int = 60, max_nodes: int = 12, max_rows: int = 1000, nodes_before: int = 15
) -> Case:
    """Some partitions have had a node before, among them nodes that are gone; some have lag; rooms are few."""
    partitions = draw(st.lists(keys, max_size=max_partitions, unique=True))
    source_count = draw(st.integers(1, max_nodes))
    rooms = st.sampled_from(["east", "north", "west"])

    def for_each(values: st.SearchStrategy[int]) -> dict[PartitionKey, int]:
        drawn = draw(st.lists(values, min_size=len(partitions), max_size=len(partitions)))
        return dict(zip(partitions, drawn, strict=True))

    before = for_each(st.integers(-1, nodes_before - 1))
    hints = Hints(
        previous={key: node for key, node in before.items() if node >= 0},
        lag={key: rows for key, rows in for_each(st.integers(0, max_rows)).items() if rows},
        rooms={broker_id: draw(rooms) for broker_id in {key.broker_id for key in partitions}},
        node_rooms={node: draw(rooms) for node in range(source_count)},
        plan=for_each(st.integers(0, source_count - 1)),
    )
    return Case(partitions, source_count, hints)
