"""The whole in virtual time: source, offsets table and ingest keep their guarantees in every seed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.simulation.defences import DEFENCES

ROOT = Path(__file__).resolve().parents[2]

SEEDS = 300
"""A hundred seconds of one core."""
PROCESSES = 2
LIMIT_SECONDS = 110
"""On a slow machine fewer seeds begin."""

KEPT = (
    10781,  # a reader skips what is lost, and its log line names the partition
    10955,  # a topic begins anew while the brokers' positions are past its end
    10820,  # a companion drops the initial offsets, which are all that the newest run has written
    11122,  # a first batch is run again, and a broker is silent that answered when it was planned
    80167,  # a checkpoint from before an accepted loss is put back, and the loss is accepted once more
)
"""Seeds that broke a guarantee once, or that the judge took for such."""


def run(*arguments: str, seconds: float = LIMIT_SECONDS + 150) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the stand-ins stay in the product's modules."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def is_fast(request: pytest.FixtureRequest) -> bool:
    profile: str | None = request.config.getoption("--hypothesis-profile", None)
    return profile == "fast"


def test_every_seed_keeps_the_guarantees(request: pytest.FixtureRequest) -> None:
    seeds = SEEDS // 30 if is_fast(request) else SEEDS
    share = seeds // PROCESSES

    def piece(first: int) -> subprocess.CompletedProcess[str]:
        limit = ("--limit-seconds", str(LIMIT_SECONDS))
        return run("tests.simulation", "--start", str(first), "--seeds", str(share), *limit)

    with ThreadPoolExecutor(PROCESSES) as pool:
        for done in pool.map(piece, range(0, seeds, share)):
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
            ran = re.search(r"^(\d+) seeds in", done.stdout, re.MULTILINE)
            assert ran is not None
            assert int(ran[1]) > 0


def test_no_kept_seed_breaks_a_guarantee_again() -> None:
    done = run("tests.simulation", "--these", *map(str, KEPT))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_seed_gives_the_same_run_each_time() -> None:
    first, second = (run("tests.simulation", "--seeds", "1", "--start", "11", "--story") for _ in range(2))
    story = first.stdout.partition("seeds in")[0]
    assert "ended: well" in story
    assert story == second.stdout.partition("seeds in")[0]


def test_the_judge_sees_each_defence_that_is_missing(request: pytest.FixtureRequest) -> None:
    """A seed that no longer sees its defence is to be replaced: `--search 60` finds another."""
    pieces = PROCESSES * 14 if is_fast(request) else PROCESSES

    def piece(number: int) -> subprocess.CompletedProcess[str]:
        return run("tests.simulation.defences", "--piece", str(number), str(pieces))

    with ThreadPoolExecutor(PROCESSES) as pool:
        for done in pool.map(piece, range(PROCESSES)):
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
            assert "seen by seed" in done.stdout


def test_each_defence_is_a_line_of_the_product() -> None:
    from tests.simulation.defences import switched_off

    assert len({defence.what for defence in DEFENCES}) == len(DEFENCES) >= 20
    for defence in DEFENCES:
        with switched_off(defence):
            pass
