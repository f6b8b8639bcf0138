"""`tubeclient ingest` on a real Spark cluster under a seeded storm: each message once, none missing.

Cut short for a build server: of the faults that the job starts again after, the one in the first round, a driver that
stood still, a broker that stays down, and one more; a server that stands still; and on a slow machine fewer of all but
these.
`python -m tests.exactly_once` is the long run.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.exactly_once.faults import (
    DRIVER_FAULTS,
    LONG_FAULTS,
    OTHER_FAULTS,
    kill_executor,
)
from tests.exactly_once.run import run

STORM_SECONDS = 180.0
ALWAYS = LONG_FAULTS

# A machine that is busy with everything else takes several times the 200 s that a run takes alone.
pytestmark = [pytest.mark.spark, pytest.mark.apache, pytest.mark.timeout(1500)]


@pytest.mark.parametrize(
    ("server", "latest", "writer", "table_format"),
    [("embedded", True, "spark", "delta"), ("apache", False, "tasks", "delta"), ("apache", False, "tasks", "iceberg")],
    ids=["embedded", "apache", "iceberg"],
)
def test_storm_of_faults(server: str, latest: bool, writer: str, table_format: str, tmp_path: Path) -> None:
    """One job reads all there is. The other begins at the latest, and its driver is killed in the first round:
    what came until then is not lost, as the first commit says where the group begins.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    others = [fault for fault in DRIVER_FAULTS if fault not in ALWAYS]
    rng = random.Random(seed)
    faults = (rng.choice(others), *OTHER_FAULTS)
    report = run(
        server,
        tmp_path,
        seed,
        seconds=STORM_SECONDS,
        rounds=1,
        first=ALWAYS,
        faults=faults,
        latest=latest,
        writer=writer,
        table_format=table_format,
        down_seconds=15.0,
    )
    assert report.whole, "\n".join(report.lines())
    # Otherwise nothing was shown.
    assert report.verdict is not None
    assert report.verdict.acknowledged > 0
    assert report.rounds > report.done.total() > 1
    assert {fault.__name__ for fault in ALWAYS} <= report.done.keys()


@pytest.mark.merge
def test_two_kills(tmp_path: Path) -> None:
    """The storm's beginning: the driver in its first round, and an executor, here with all tasks."""
    seed = random.SystemRandom().randrange(1 << 32)
    kills = (kill_executor,)
    report = run("embedded", tmp_path, seed, rounds=0, first=kills, faults=kills, latest=True, workers=1)
    assert report.whole, "\n".join(report.lines())
    assert report.verdict is not None
    assert report.verdict.acknowledged > 0
    assert report.done.total() == 2
