"""Positions changed from outside, and what is saved of them."""

from __future__ import annotations

from embedded_tubemq.broker.offsets import Cursor, GroupOffsets
from tubeclient.keys import StoreBounds

BOUNDS = StoreBounds(28, 280)
CURSOR = Cursor("g", "flights", 0)


def test_a_reset_clamps_rounds_down_and_drops_what_is_in_flight() -> None:
    offsets = GroupOffsets()
    offsets.register(CURSOR, BOUNDS, 0, 56)
    offsets.end_read(CURSOR, 84, manual=False, empty=False)
    assert offsets.reset(CURSOR, 99, BOUNDS) == 56
    assert (offsets.committed(CURSOR), offsets.in_flight(CURSOR)) == (84, 0)
    offsets.reset(CURSOR, 9999, BOUNDS)
    assert offsets.committed(CURSOR) == 280
    offsets.reset(CURSOR, 0, BOUNDS)
    assert offsets.committed(CURSOR) == 28


def test_a_clean_stop_commits_what_is_in_flight() -> None:
    offsets = GroupOffsets()
    offsets.register(CURSOR, BOUNDS, 0, 56)
    offsets.end_read(CURSOR, 84, manual=False, empty=False)
    offsets.commit_all()
    assert offsets.committed(CURSOR) == 140


def test_changes_are_noticed_and_nothing_else() -> None:
    offsets = GroupOffsets()
    offsets.register(CURSOR, BOUNDS, 0, 56)
    assert offsets.changed
    offsets.changed = False
    offsets.register(CURSOR, BOUNDS, 0, 56)
    offsets.end_read(CURSOR, 84, manual=False, empty=False)
    assert not offsets.changed
    offsets.commit(CURSOR, consumed=True)
    assert offsets.changed


def test_only_committed_positions_are_saved() -> None:
    offsets = GroupOffsets()
    offsets.register(CURSOR, BOUNDS, 0, 56)
    offsets.end_read(CURSOR, 84, manual=False, empty=False)
    loaded = GroupOffsets.load(offsets.dump())
    assert (loaded.committed(CURSOR), loaded.in_flight(CURSOR)) == (56, 0)
    assert loaded.committed(Cursor("g", "flights", 1)) is None


def test_a_forgotten_position_is_gone() -> None:
    offsets = GroupOffsets()
    offsets.register(CURSOR, BOUNDS, 0, 56)
    offsets.changed = False
    offsets.forget(CURSOR)
    assert offsets.changed
    assert list(offsets.cursors()) == []
