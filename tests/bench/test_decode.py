"""What is decoded in the benchmark is what a broker sends, and all of it is."""

from __future__ import annotations

import pytest

from bench.decode import STAGES, decode, make_frames, stage_seconds


@pytest.mark.parametrize("attributes", [False, True])
def test_every_message_becomes_a_row(attributes: bool) -> None:
    packs = make_frames(7, 100, 20, with_attributes=attributes)
    rows = [row for batch in decode(packs, include_attributes=attributes) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [b"%020d" % number for number in range(700)]
    assert {row["messageType"] for row in rows} == ({"web"} if attributes else {None})
    if attributes:
        assert [row["attributes"] for row in rows] == [[("id", f"{number:08}")] for number in range(700)]


def test_each_stage_takes_its_time() -> None:
    seconds = stage_seconds(make_frames(12, 2_000, 100, with_attributes=False), include_attributes=False)
    assert tuple(seconds) == STAGES
    assert all(value > 0 for value in seconds.values())
