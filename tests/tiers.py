"""Which tests `make test` leaves to `make test-all`: those that get the mark `nightly`.

Three tiers, each with all of the one before: `make test-fast` (no Spark, no servers of Apache's), `make
test` (each guarantee once, on embedded servers and one Spark session, and a short run on Apache's), `make test-all`. A
test that starts Spark or Apache's servers is nightly, unless it has the mark `merge`. So a new test cannot make the
merge tier long by accident. `merge("apache-")` is for the parameters whose id begins like this.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

import pytest

__all__ = ["HEAVY", "LONG", "group_of", "is_nightly", "rank_of"]

ROOT: Final = Path(__file__).resolve().parent

HEAVY: Final = ("spark", "apache")
"""The marks of tests that start something large."""

INGEST: Final = "tubeclient_ingest"

LONG: Final = (
    "exactly_once/test_exactly_once.py",
    "spark_source/test_connect.py",
    f"{INGEST}/test_whole_group.py",
    "tubeclient_cli/ingest/test_command.py",
    f"{INGEST}/test_job.py",
    f"{INGEST}/test_bad_records.py",
    "simulation/test_simulation.py",
    f"{INGEST}/test_retry.py",
    "spark_source/progress/test_table_order.py",
    f"{INGEST}/test_job_targets.py",
    "exactly_once/test_lost_tail.py",
)
"""Each takes minutes in `make test-all`; the longest is first."""


def _place(item: pytest.Item) -> str:
    return item.path.relative_to(ROOT).as_posix()


def is_nightly(item: pytest.Item) -> bool:
    """Whether `make test` leaves this test out."""
    merge = item.get_closest_marker("merge")
    if merge is not None:
        return not item.name.partition("[")[2].startswith(merge.args or "")
    return any(item.get_closest_marker(mark) for mark in HEAVY)


@functools.cache
def group_of(place: str) -> str:
    """Files of one group run in one process, one after the other: one Spark session, and one start of Apache's servers,
    serve all that use them. `place` is the file's, below this folder.
    """
    text = (ROOT / place).read_text(encoding="utf-8")
    if "delta_spark" in text or "ingest.bench import" in text:
        return "spark"
    return "apache" if place.startswith(("apache/", "conformance/")) else place


def rank_of(item: pytest.Item) -> tuple[bool, int]:
    """Where it comes in the run: what takes long first, or it would be the last, while the other processes idle."""
    place = _place(item)
    return group_of(place) != "spark", LONG.index(place) if place in LONG else len(LONG)
