"""Searching an index for a minute: which place is found, in order and in disorder, and by how many looks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tubeclient.flows.find_time import TimeSearch
from tubeclient.keys import INDEX_ENTRY_BYTES as ENTRY
from tubeclient.keys import StoreBounds

Index = list[int | None]
"""The index of a store: for each entry the minute of the partition's message, None for those of its siblings."""

indexes = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=80)
minutes = st.integers(0, 10)


def search(index: Index, minute: int, low: int = 0, walk: int = 1) -> tuple[int, int | None, int]:
    """What is found: entry and whether there is a message, and by how many looks.

    `walk`: how many entries without a message a broker passes over before it says where it stands.
    """
    looking = TimeSearch(StoreBounds(low * ENTRY, len(index) * ENTRY), minute)
    view_requests = searched(looking, index, low, walk)
    return looking.limit // ENTRY, looking.found, view_requests


def searched(looking: TimeSearch, index: Index, low: int = 0, walk: int = 1) -> int:
    """By how many looks it came to its end."""
    view_requests = 0
    while (offset := looking.next_offset) is not None:
        view_requests += 1
        assert low * ENTRY <= offset < len(index) * ENTRY
        assert view_requests <= 2 * (len(index) - low), "more looks than entries"
        look(looking, index, offset, walk)
    return view_requests


def look(looking: TimeSearch, index: Index, offset: int, walk: int) -> None:
    """As a broker does: its answer begins before the message, by less than `walk` entries."""
    at = offset // ENTRY
    while at < looking.limit // ENTRY:
        for minute in index[at : at + walk]:
            if minute is not None:
                looking.saw(offset, at * ENTRY, minute)
                return
        at += walk
    looking.saw_nothing(offset)


def first(index: Index, at: int) -> int | None:
    return next((minute for minute in index[at:] if minute is not None), None)


@given(indexes, minutes, st.data())
def test_times_out_of_order(index: Index, minute: int, data: st.DataObject) -> None:
    """Even out of order, the message before the place is older and the next one is not."""
    low = data.draw(st.integers(0, len(index)))
    place, found, _ = search(index, minute, low, walk=data.draw(st.integers(1, 9)))
    before, behind = index[place - 1] if place > low else None, first(index, place)
    assert place == low or (before is not None and before < minute)
    assert behind is None or behind >= minute
    assert found == (None if behind is None else place * ENTRY)


@given(indexes, minutes, st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=80), st.data())
def test_repeated_search(index: Index, minute: int, more: Index, data: st.DataObject) -> None:
    """A second search finds the same place if only newer messages come and only older ones expire."""
    walks = st.integers(1, 9)
    place, found, _ = search(index, minute, walk=data.draw(walks))
    later = [time for time in more if time is None or time >= minute]
    # What stood before the first message that is not older may be gone.
    expired = next((at for at, time in enumerate(index) if time is not None and time >= minute), len(index))
    low = data.draw(st.integers(0, min(expired, place)))
    again, found_again, _ = search([*index, *later], minute, low, data.draw(walks))
    assert again == place
    assert found_again == (found if first(later, 0) is None else place * ENTRY)


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 24), st.data())
def test_looks_are_as_many_as_binary_digits(low: int, count: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(low, low + count))
    looking = TimeSearch(StoreBounds(low * ENTRY, (low + count) * ENTRY), 5)
    view_requests = 0
    while (offset := looking.next_offset) is not None:
        looking.saw(offset, offset, 5 if offset >= begin * ENTRY else 4)
        view_requests += 1
        assert view_requests <= count.bit_length() + 1
    assert looking.limit == begin * ENTRY


@given(indexes, minutes, st.data())
def test_expiry_during_search(index: Index, minute: int, data: st.DataObject) -> None:
    """Messages that expire during the search count as older."""
    looking = TimeSearch(StoreBounds(0, len(index) * ENTRY), minute)
    low = 0
    for _ in range(200):
        offset = looking.next_offset
        if offset is None:
            break
        if data.draw(st.booleans()):
            low = data.draw(st.integers(low, len(index)))
        if offset < low * ENTRY:
            looking.expired(low * ENTRY)
        else:
            look(looking, index, offset, 1)
    assert looking.next_offset is None, "the search does not end"
    place = looking.limit // ENTRY
    behind = first(index, place)
    assert behind is None or behind >= minute or place < low
    assert looking.found == (None if behind is None else place * ENTRY)
