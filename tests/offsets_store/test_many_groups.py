"""Many groups commit to one table at once: nobody is told to stop for what other groups write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsets_store import CommitConflict, GroupKey, OffsetsTable, delta_rs
from tests.offsets_store.conftest import FIRST, KEY, Between, at

GROUPS, COMMITS = 8, 10


def test_all_of_them_get_through(open_table: Callable[[], OffsetsTable]) -> None:
    open_table().open_run(KEY, 1).record(at({FIRST: 28}))

    def write(number: int) -> bool:
        run = open_table().open_run(GroupKey(f"group_{number}", ["clicks"]), 1)
        return all(run.record(at({FIRST: 28 * step})) for step in range(1, COMMITS + 1))

    with ThreadPoolExecutor(GROUPS) as pool:
        assert all(pool.map(write, range(GROUPS)))
    table = open_table()
    assert [table.positions(name, ["clicks"]) for name in table.groups()] == [
        {FIRST: 28},
        *[{FIRST: 28 * COMMITS}] * GROUPS,
    ]


def test_one_that_always_loses_is_told_why(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other try is made within delta-rs, and before each of ours another group commits."""
    monkeypatch.setattr(delta_rs, "_RETRIES", 0)
    between = Between(delta_rs.DeltaRsStorage(uri, {}))
    other = OffsetsTable(uri).open_run(GroupKey("another", ["clicks"]), 1)
    other.record(at({FIRST: 28}))
    steps = iter(range(2, 100))

    def overtake() -> None:
        other.record(at({FIRST: 28 * next(steps)}))
        between.act = overtake

    between.act = overtake
    with pytest.raises(CommitConflict, match="8 commits in a row lost to another writer"):
        OffsetsTable(uri, storage=between).open_run(KEY, 1).record(at({FIRST: 56}))
