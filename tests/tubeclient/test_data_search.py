"""Finding the first index entry with a message, on an index that fits on a page."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tubeclient.flows.data_probe import Seen, first_with_data, has_data_before
from tubeclient.flows.effects import Flow
from tubeclient.keys import INDEX_ENTRY_BYTES as ENTRY
from tubeclient.keys import StoreBounds

Index = list[tuple[int, bool]]
"""Of each entry: its partition, and whether its message can be read though its data is there."""


class Store:
    """A store whose entries before `expired` have no data; a broker walks over `walk` entries for one answer."""

    def __init__(self, index: Index, expired: int, walk: int, partitions: int) -> None:
        self.index = index
        self.expired = expired
        self.walk = walk
        self.partitions = partitions
        self.view_requests = 0

    @property
    def first(self) -> int:
        """The first entry with a message."""
        return min((at for at in range(len(self.index)) if self.has(at)), default=len(self.index))

    def has(self, at: int) -> bool:
        return at >= self.expired and self.index[at][1]

    def look(self, partition: int, start: int, limit: int) -> Flow[Seen]:
        assert not start % ENTRY
        self.view_requests += 1
        at = start // ENTRY
        while True:
            pack = range(at, min(at + self.walk, len(self.index)))
            found = [entry for entry in pack if self.has(entry) and self.index[entry][0] == partition]
            end = pack.stop if pack else len(self.index)
            if found:
                return Seen(found[0], (end - len(found)) * ENTRY)
            at = end
            if at * ENTRY >= limit or at >= len(self.index):
                return Seen(None, max(at, start // ENTRY + 1) * ENTRY)
        yield


def run(flow: Flow[Any]) -> Any:
    try:
        next(flow)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("asked for something")


@st.composite
def stores(draw: st.DrawFn) -> Store:
    partitions = draw(st.integers(1, 4))
    entry = st.tuples(st.integers(0, partitions - 1), st.sampled_from([True] * 9 + [False]))
    index = draw(st.lists(entry, max_size=200))
    walk = draw(st.integers(1, 40))
    bad = 0
    for at in reversed(range(len(index))):
        partition, is_readable = index[at]
        # An answer that holds nothing but bad messages looks like one from a place without data.
        bad = 0 if is_readable or at == len(index) - 1 or bad + 1 >= walk else bad + 1
        index[at] = partition, bad == 0
    return Store(index, draw(st.integers(0, len(index))), walk, partitions)


@settings(max_examples=examples(400))
@given(stores(), st.integers(0, 200))
def test_the_first_entry_with_a_message_is_found(store: Store, index_begins: int) -> None:
    begins = min(index_begins, len(store.index))
    bounds = StoreBounds(begins * ENTRY, len(store.index) * ENTRY)
    there = [at for at in range(begins, len(store.index)) if store.has(at)]
    expected = there[0] if there else len(store.index)
    assert run(first_with_data(store.look, store.partitions, bounds)) == expected * ENTRY


@settings(max_examples=examples(400))
@given(stores(), st.integers(-1, 200))
def test_it_is_enough_to_know_that_it_is_not_behind(store: Store, enough: int) -> None:
    bounds = StoreBounds(0, len(store.index) * ENTRY)
    found = run(first_with_data(store.look, store.partitions, bounds, enough * ENTRY)) // ENTRY
    assert store.first <= found
    assert found <= enough or found == store.first


@settings(max_examples=examples(400))
@given(stores(), st.integers(0, 200))
def test_data_before_an_entry_is_never_made_up(store: Store, offset: int) -> None:
    offset = min(offset, len(store.index))
    said = run(has_data_before(store.look, store.partitions, offset * ENTRY))
    assert said == any(store.has(at) for at in range(max(0, offset - 100), offset))
