"""`tubeclient ingest` on a real Spark cluster under a seeded storm: each message once, none missing.

Cut short for a build server: of the faults that the job starts again after, one, and the one in batch 0; and on a slow
machine fewer of all.
`python -m tests.exactly_once` is the long run.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.exactly_once.faults import DRIVER_FAULTS, OTHER_FAULTS
from tests.exactly_once.run import run

STORM_SECONDS = 60.0

# A machine that is busy with everything else takes several times the 80 s that a run takes alone.
pytestmark = [pytest.mark.spark, pytest.mark.apache, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("server", "latest"), [("embedded", True), ("apache", False)])
def test_each_message_is_in_the_table_once_whatever_is_killed(server: str, latest: bool, tmp_path: Path) -> None:
    """One job reads all there is. The other begins at the latest, and its driver is killed in batch 0: what came until
    then is kept by two things, that batch 0 holds nothing of the latest, and the first answer in the offsets table.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    faults = (random.Random(seed).choice(DRIVER_FAULTS), *OTHER_FAULTS)
    report = run(server, tmp_path, seed, seconds=STORM_SECONDS, rounds=1, faults=faults, latest=latest)
    assert report.verdict is not None
    assert report.verdict.whole, "\n".join(report.lines())
    # Otherwise nothing was shown.
    assert report.verdict.acknowledged > 0
    assert report.batches > report.done.total() > 1
