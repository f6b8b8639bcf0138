"""Task retry needs a session of its own: plain local[n] gives a task one attempt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.own_session import run_module

pytestmark = pytest.mark.merge


@pytest.mark.spark
def test_failed_task_is_read_again(feed: Feed, tmp_path: Path) -> None:
    """Spark reads a failed task again, and no row is doubled."""
    feed.send(3000)
    options = feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=2000)
    done = run_module("tests.spark_source.flaky_source", json.dumps(options), str(tmp_path))
    assert done.returncode == 0, done.stderr[-4000:]
    assert "this attempt was made to fail" in done.stderr
    bodies = [
        json.loads(line)["body"].encode()
        for path in (tmp_path / "rows").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    assert sorted(bodies) == feed.sent
