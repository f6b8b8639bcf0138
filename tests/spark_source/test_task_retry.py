"""Task retry needs a session of its own: plain local[n] gives a task one attempt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark_source.feed import Feed

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_a_failed_task_is_read_again_and_doubles_nothing(feed: Feed, tmp_path: Path) -> None:
    feed.send(3000)
    options = feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=2000)
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark_source.flaky_source", json.dumps(options), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **python, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "this attempt was made to fail" in done.stderr
    bodies = [
        json.loads(line)["body"].encode()
        for path in (tmp_path / "rows").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    assert sorted(bodies) == feed.sent
