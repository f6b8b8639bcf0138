"""Shares: never more than there is, the sum exact, everybody something or in turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_source.plan.sharing import share_rows

sharers = st.dictionaries(st.integers(0, 9), st.integers(0, 40), min_size=1)


@given(sharers, st.none() | st.integers(0, 30), st.integers(0, 100))
def test_shares(behind: dict[int, int], limit: int | None, turn: int) -> None:
    shares = share_rows(behind, limit, turn)
    total = sum(behind.values())
    assert sum(shares.values()) == (total if limit is None else min(total, limit))
    assert shares.keys() == behind.keys()
    assert all(0 <= shares[one] <= behind[one] for one in behind)
    waiting = [one for one, rows in behind.items() if rows]
    if limit is None or limit >= len(waiting):
        assert all(shares[one] for one in waiting)
        for one in waiting:  # more behind never gets less, but for the row that rounding decides
            assert all(shares[one] + 1 >= shares[other] for other in behind if behind[one] >= behind[other])


@given(st.data(), st.integers(1, 8), st.integers(1, 8))
def test_everybodys_turn_comes_whoever_else_waits(data: st.DataObject, count: int, limit: int) -> None:
    """Others come and go from one sharing to the next; number 0 has always something to read."""
    turn, batches = data.draw(st.integers(0, 20)), 0
    while True:
        behind = {0: 100, **{one: data.draw(st.integers(0, 1)) for one in range(1, count)}}
        shares = share_rows(behind, limit, turn)
        batches += 1
        if shares[0]:
            break
        turn += sum(shares.values())
        assert batches * limit < count
