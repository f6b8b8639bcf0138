"""Figures that pages tell in sentences are those of the results: a run writes the tables alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.results import RESULTS_FILE, Results
from bench.workloads import LAYOUTS, WORKLOADS

DOCS = RESULTS_FILE.parents[1] / "docs"
MEDIANS = Results.from_json(RESULTS_FILE.read_text()).medians()
PLACES = [layout.key for layout in LAYOUTS]


def text_of(page: Path) -> str:
    """A page's text without its line ends."""
    return " ".join(page.read_text().split())


def span(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def row_cost(work: str, place: str, part: str = "executors") -> float:
    return MEDIANS[f"executor_cpu/{work}/{place}/all/{part}"]


FASTER = span(
    [
        MEDIANS[f"{work.key}/kafka/impatient"] / MEDIANS[f"{work.key}/{place}/tubeclient"]
        for work in WORKLOADS
        for place in PLACES
    ]
)
DEARER = span(
    [
        MEDIANS[f"executor_cpu/{work}/{place}/{who}/executors"] / MEDIANS[f"executor_cpu/{work}/kafka/executors"]
        for work in ("small", "medium", "large")
        for place in PLACES
        for who in ("all", "value")
    ]
)
SLOWEST_OF_ALL = 2 / sum(row_cost("small", "one_store", part) for part in ("broker", "executors"))
TEN_MILLION = {work: f"{10 * row_cost(work, 'eight_stores'):.0f}" for work in ("small", "medium")}
LATENCY = [f"{MEDIANS[f'latency/{side}'] / 1_000:.1f}" for side in ("tubeclient", "kafka_impatient")]
FIRST_ROW = [f"{MEDIANS[f'first_row/{side}']:.1f}" for side in ("tubeclient", "kafka_impatient")]
SENDING = [f"{MEDIANS[f'writing/cpu_{side}']:.0f}" for side in ("java", "many", "one_by_one")]
READ_LATER = f"{MEDIANS['small/one_store/tubeclient'] / 1e6:.2f}"
WRITING = [f"{MEDIANS[f'writing/{side}'] / MEDIANS['writing/java']:.1f}" for side in ("many", "spark")]
CEILING = span([MEDIANS[f"small/{place}/ceiling"] / 1e6 for place in PLACES])


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("performance.md", f"costs an executor {DEARER} times the CPU time"),
        ("performance.md", f"it reads {FASTER} times as many rows a second"),
        ("performance.md", f"{TEN_MILLION['small']} cores for ten million rows of 100 bytes a second"),
        ("performance.md", f"after {LATENCY[0]} s, with Kafka's source after {LATENCY[1]} s"),
        ("performance.md", f"first row after {FIRST_ROW[0]} s, with Kafka's source after {FIRST_ROW[1]} s"),
        ("performance.md", f"100 bytes and one store {SLOWEST_OF_ALL:.2f} M rows/s"),
        ("performance.md", f"read {READ_LATER} M.)"),
        ("performance.md", f"`Producer` sends {WRITING[0]} times as many"),
        ("performance.md", f"a Spark write with two tasks {WRITING[1]} times as many"),
        ("performance.md", f"at every size, {FASTER} times on two cores"),
        (
            "performance.md",
            f"takes {SENDING[0]} µs of CPU time in the producer's process; `Producer` takes {SENDING[1]}",
        ),
        ("performance.md", f"or {SENDING[2]} by `submit`"),
        ("comparison.md", f"reads [{FASTER} times as fast]"),
        ("scale.md", f"{TEN_MILLION['small']} for 100 bytes, {TEN_MILLION['medium']} for 1 KB"),
        ("scale.md", f"shared with its readers, gave {CEILING} M at most"),
    ],
)
def test_a_sentence_says_what_was_measured(page: str, said: str) -> None:
    assert said in text_of(DOCS / page)
