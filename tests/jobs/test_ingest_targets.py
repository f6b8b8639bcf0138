"""The ingest job and a target that is not the one that its checkpoint wrote to."""

from __future__ import annotations

import shutil

import pytest

from tests.jobs.bench import Bench

pytestmark = pytest.mark.spark


def test_one_checkpoint_with_one_target_then_another_then_the_first(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    other = str(bench.folder / "other")
    bench.send(20)
    bench.run("one")
    bench.send(20)
    with pytest.raises(StreamingQueryException, match=r"RowsWouldBeMissing: batch 1 .* Is it another table"):
        bench.run("one", target=other)
    bench.send(20)
    assert sum(event.rows for event in bench.run("one")) == 40
    assert bench.repeated_or_missing() == {}


def test_a_target_that_was_dropped_is_not_gone_on_with_by_an_old_checkpoint(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    bench.send(20)
    bench.run("one")
    shutil.rmtree(bench.settings.target)
    bench.send(20)
    with pytest.raises(StreamingQueryException, match=r"RowsWouldBeMissing: batch 1 .* Start with a new checkpoint"):
        bench.run("one")
    assert sum(event.rows for event in bench.run("two", starting_offsets="earliest")) == 40
    assert bench.repeated_or_missing() == {}
