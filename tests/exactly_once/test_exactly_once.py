"""`tubeclient ingest` on a real Spark cluster under a seeded storm: each message once, none missing.

The runs are cut short for a build server; `python -m tests.exactly_once --seconds 600` is the long one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.exactly_once.run import SERVERS, run

# A machine that is busy with everything else takes several times the 80 s that a run takes alone.
pytestmark = [pytest.mark.spark, pytest.mark.apache, pytest.mark.timeout(600)]

STORM_SECONDS = 40.0


@pytest.mark.parametrize("server", SERVERS)
def test_each_message_is_in_the_table_once_whatever_is_killed(server: str, tmp_path: Path) -> None:
    report = run(server, tmp_path, random.SystemRandom().randrange(1 << 32), seconds=STORM_SECONDS)
    assert report.verdict is not None
    assert report.verdict.whole, "\n".join(report.lines())
    # Otherwise nothing was shown.
    assert report.verdict.acknowledged > 0
    assert report.batches > report.done.total() > 0
