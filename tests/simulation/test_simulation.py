"""The whole in virtual time: source, offsets table, OffsetsListener and ingest keep their guarantees in every seed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.defences import DEFENCES

ROOT = Path(__file__).resolve().parents[2]

SEEDS = 150
"""Seventy to a hundred seconds of one core."""
LIMIT_SECONDS = 110
"""On a slow machine fewer seeds begin."""

FOUND = ("a range that has expired as a whole is at its end",)
"""Missing once, and found by the simulation: the seed of each is one that failed."""

QUICK = ("what RESTORE took out does not count", "only what is complete is recorded", "a range ends where it ends")


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


def test_every_seed_keeps_the_guarantees(request: pytest.FixtureRequest) -> None:
    seeds = SEEDS // 5 if request.config.getoption("--hypothesis-profile", None) == "fast" else SEEDS
    done = run("tests.simulation", "--seeds", str(seeds), "--limit-seconds", str(LIMIT_SECONDS))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    ran = re.search(r"^(\d+) seeds in", done.stdout, re.MULTILINE)
    assert ran is not None
    assert int(ran[1]) > 0


def test_a_seed_gives_the_same_run_each_time() -> None:
    first, second = (run("tests.simulation", "--seeds", "1", "--start", "9", "--story") for _ in range(2))
    story = first.stdout.partition("seeds in")[0]
    assert "committed batch" in story
    assert story == second.stdout.partition("seeds in")[0]


@pytest.mark.parametrize("what", [*QUICK, *FOUND])
def test_the_judge_sees_that_a_defence_is_missing(what: str) -> None:
    done = run("tests.simulation.defences", "--only", what)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "seen by seed" in done.stdout


def test_each_defence_is_a_line_of_the_product() -> None:
    from tests.simulation.defences import switched_off

    assert len({defence.what for defence in DEFENCES}) == len(DEFENCES) >= 25
    for defence in DEFENCES:
        with switched_off(defence):
            pass
