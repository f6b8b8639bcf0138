"""What may go from a log, and what every version in the kept history still has."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from offsets_store.log_retention import expendable, files_to_delete


def _commit(version: int) -> str:
    return f"{version:020}.json"


def _checkpoint(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


@given(st.integers(0, 60), st.sets(st.integers(0, 60)), st.integers(0, 40))
def test_each_of_the_newest_versions_can_still_be_read(newest: int, checkpoints: set[int], keep: int) -> None:
    names = [_commit(version) for version in range(newest + 1)]
    names += [_checkpoint(version) for version in checkpoints if version <= newest]
    left = set(names) - {entry.name for entry in expendable(names, keep)}
    for version in range(max(0, newest - keep), newest + 1):
        base = max((at for at in checkpoints if at <= version and _checkpoint(at) in left), default=-1)
        assert {_commit(at) for at in range(base + 1, version + 1)} <= left
        assert _commit(version) in left
    # And no more is kept than from one checkpoint on.
    floor = max((at for at in checkpoints if at <= newest - keep), default=0)
    assert len(left) == newest + 1 - floor + sum(floor <= at <= newest for at in checkpoints)


def test_everything_of_an_old_version_goes_oldest_first_and_nothing_unknown() -> None:
    old = [
        _commit(3),
        f"{3:020}.crc",
        f"{3:020}.00000000000000000004.compacted.json",
        f"{4:020}.checkpoint.0000000001.0000000002.parquet",
        f"{4:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet",
    ]
    spans_the_floor = f"{4:020}.{5:020}.compacted.json"
    kept = [_commit(5), _checkpoint(5), _commit(6), "_last_checkpoint", "_staged_commits", "3.json", spans_the_floor]
    found = expendable([*kept, *old], 1)
    assert {entry.name for entry in found} == set(old)
    assert [entry.version for entry in found] == sorted(entry.version for entry in found)
    assert [entry.name for entry in found if entry.is_commit] == [_commit(3)]
    # Only a checkpoint in one file is one that is surely whole.
    assert expendable([_commit(9), f"{5:020}.checkpoint.0000000001.0000000002.parquet", _commit(1)], 1) == []


def test_only_files_below_the_table_that_nobody_uses_are_deleted() -> None:
    paths = ["g=it%2527s/part-1.parquet", "part-2.parquet", "/etc/passwd", "s3://other/part-3.parquet", "../up.parquet"]
    actions = [{"commitInfo": {}}, {"add": {"path": "part-9.parquet"}}, *({"remove": {"path": path}} for path in paths)]
    text = "\n".join(json.dumps(action) for action in actions)
    assert files_to_delete(text, {"part-2.parquet"}) == ["g=it%27s/part-1.parquet"]
