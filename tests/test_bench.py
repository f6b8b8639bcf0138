"""What `make bench` prints: rounds go on until all sides are flat, and a side's result is checked for what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from bench.contents import check_table
from bench.ingest import backlog, typed_rows
from bench.measuring import COST, Results, Side, is_flat

WARMING_UP = (3.2, 2.0, 2.1, 1.8, 1.4, 1.3, 1.25, 1.2, 1.17, 1.17, 1.18, 1.16)


def side(*costs: float) -> Side:
    given = iter(costs)

    def measure() -> Mapping[str, float]:
        return {"k rows/s": 1.0, COST: next(given, costs[-1])}

    return measure


def test_a_side_that_still_gets_cheaper_is_not_flat() -> None:
    flat_from = next(number for number in count(1) if is_flat(WARMING_UP[:number]))
    assert flat_from == 12  # the median of its last three rounds is 1.17, of the three before 1.20
    assert not is_flat((1.0, 1.0, 1.0))


def test_one_odd_round_is_no_trend() -> None:
    assert is_flat((1.0, 1.0, 1.01, 1.0, 1.6, 0.99))


def test_warm_up_until_flat() -> None:
    """A side warms up until it is flat, and then three rounds of all sides count."""
    results = Results(20, 1.0, lambda _: None)
    results.take_turns("reading", {"ours": side(1.0), "peer": side(*WARMING_UP)})
    ours, peer = (one for one in results.figures if one.unit == COST)
    assert (len(ours.values), len(peer.values)) == (6 + 3, 12 + 3)
    assert (peer.median, peer.flat) == (1.16, "yes")
    assert "| reading | peer | CPU s for a million | 1.16 | 1.16 | yes | 3.20, 2.00" in results.markdown()


def test_side_that_never_gets_flat() -> None:
    """The results mark a side that is not flat at the end."""
    results = Results(5, 1.0, lambda _: None)
    results.take_turns("reading", {"ours": side(1.0), "peer": side(*WARMING_UP)})
    assert [one.flat for one in results.figures if one.unit == COST] == ["yes", "no"]


@pytest.mark.parametrize("ids", [(None, None, None), (0, 1, 1), (0, 1)], ids=["all bad", "one twice", "one missing"])
def test_table_with_other_rows(ids: tuple[int | None, ...], tmp_path: Path) -> None:
    """The check fails if a table has other rows than the wanted ones."""
    wanted = typed_rows(range(3))
    check_table(write(tmp_path / "right", wanted), wanted)
    other = wanted.slice(0, len(ids)).set_column(0, "id", pa.array(ids, pa.int64()))
    with pytest.raises(RuntimeError, match="other rows"):
        check_table(write(tmp_path / "other", other), wanted)


def write(path: Path, rows: pa.Table) -> str:
    write_deltalake(str(path), rows)
    return str(path)


def test_share_of_bad_records() -> None:
    """One in a hundred records of the main job's backlog is bad."""
    good, some_bad = ([*backlog(bad, 1 / 150).bodies()] for bad in (False, True))
    assert all(one.endswith(b"}") for one in good)
    assert sum(not one.endswith(b"}") for one in some_bad) == 20
    assert 95 < sum(map(len, good)) / 2_000 < 105
