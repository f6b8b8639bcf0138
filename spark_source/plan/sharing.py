"""Shares out rows: a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tubeclient.keys import StoreKey

__all__ = ["share_rows"]

_Sharer = TypeVar("_Sharer", StoreKey, tuple[StoreKey, int], int)
"""Who gets a share: a store, a window of its index, or a node."""


def share_rows(behind: Mapping[_Sharer, int], max_rows: int | None, turn: int = 0) -> dict[_Sharer, int]:
    """Share `max_rows` in proportion to the rows that each sharer is behind.

    A sharer gets at most what it is behind, and at least one row if there are enough. The sum is `max_rows`, or
    everything if that is less. If there are fewer rows than sharers with something to read, consecutive sharers get one
    row each, starting at number `turn`. If `turn` is the number of rows shared out so far, all sharers take turns.
    """
    total = sum(behind.values())
    if max_rows is None or total <= max_rows:
        return dict(behind)
    shares = dict.fromkeys(behind, 0)
    waiting = [sharer for sharer, rows in behind.items() if rows]
    if max_rows <= len(waiting):
        everybody = sorted(behind)
        first = turn % len(everybody)
        in_turn = [sharer for sharer in everybody[first:] + everybody[:first] if behind[sharer]]
        return {**shares, **dict.fromkeys(in_turn[:max_rows], 1)}
    # One row for each, the rest in proportion to what remains. Integers only: the largest remainders get the rows left
    # by rounding down.
    spare, weights = max_rows - len(waiting), {sharer: behind[sharer] - 1 for sharer in waiting}
    all_weights = sum(weights.values())
    shares.update({sharer: 1 + spare * weight // all_weights for sharer, weight in weights.items()})
    by_remainder = sorted(weights, key=lambda sharer: (-(spare * weights[sharer] % all_weights), sharer))
    for sharer in by_remainder[: max_rows - sum(shares.values())]:
        shares[sharer] += 1
    return shares
