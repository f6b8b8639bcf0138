"""Picking pieces out of a file: the same bytes as slices of it, with pyarrow and without."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq.storage import gather as module
from embedded_tubemq.storage.gather import gather


@pytest.fixture(params=[pyarrow, None], ids=["pyarrow", "none"], scope="module", autouse=True)
def arrow(request: pytest.FixtureRequest) -> Iterator[ModuleType | None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "pa", request.param)
        yield request.param


@given(st.binary(max_size=300), st.data())
def test_the_pieces_follow_one_another(data: bytes, draw: st.DataObject) -> None:
    borders = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=40)))
    spans = list(pairwise(borders))[::2]
    starts = np.array([start for start, _ in spans], np.int64)
    ends = np.array([end for _, end in spans], np.int64)
    assert bytes(gather(data, starts, ends)) == b"".join(data[start:end] for start, end in spans)


def test_a_file_in_memory_is_let_go_of_and_what_was_picked_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    picked = gather(mapped, np.array([3, 100]), np.array([5, 102]))
    mapped.close()  # BufferError while somebody holds on to it
    assert picked.readonly
    assert bytes(picked) == bytes([3, 4, 100, 101])


@pytest.mark.parametrize(
    ("starts", "ends"),
    [([-1], [3]), ([3], [2]), ([0, 4], [5, 6]), ([4, 0], [6, 2]), ([0], [11]), ([1 << 40], [(1 << 40) + 1])],
)
def test_pieces_that_are_not_there_are_refused(starts: list[int], ends: list[int]) -> None:
    with pytest.raises(ValueError, match="not in order within 10"):
        gather(bytes(10), np.array(starts), np.array(ends))
