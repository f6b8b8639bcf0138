"""Figures, targets and tables of `make bench`: pure, and what the docs show is what the results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.plot import bars_of, draw
from bench.results import RESULTS_FILE, Figure, Results, Spread
from bench.tables import BEGIN, END, put_between, tables
from bench.targets import REASONS, TARGETS, Target, Verdict, judge
from bench.workloads import GROWING_PARTITIONS, LAYOUTS, PARTITIONS, WORKLOADS, scaled

PAGE = RESULTS_FILE.parents[1] / "docs" / "performance.md"


def make_results() -> Results:
    machine = {"cpu": "some CPU", "cores": 2, "memory_gb": 23.4, "load_before": 0.25, "load_after": 1.5}
    results = Results(machine, {"Java": "17.0.1"}, "2026-11-22T13:00:00+00:00", 1, 1, 3)
    results.add("small/one_store/ceiling", "the ceiling", "rows/s", [900_000, 1_000_000, 1_200_000])
    results.add("small/one_store/tubeclient", "ours", "rows/s", [850_001.4, 700_000, 950_000])
    results.add("first_row/tubeclient", "first row", "seconds", [1.23456789, 0.5])
    return results


def test_a_spread_is_least_median_and_most() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == (1.0, 2.0, 3.0)
    assert Spread.of([4.0, 1.0]) == (1.0, 2.5, 4.0)
    assert Spread.of([7.0]) == (7.0, 7.0, 7.0)


def test_results_come_back_from_json() -> None:
    results = make_results()
    results.group_seconds["small"] = 12.5
    assert Results.from_json(results.to_json()) == results
    assert results.figures["small/one_store/tubeclient"].values == (850_000, 700_000, 950_000)


def test_a_later_run_of_some_groups_replaces_their_figures_and_says_when() -> None:
    whole, part = make_results(), make_results()
    whole.group_seconds.update(small=12.5, first_row=8.0)
    del part.figures["small/one_store/ceiling"], part.figures["first_row/tubeclient"]
    part.figures["small/one_store/tubeclient"] = Figure("ours", "rows/s", (1.0,))
    part.group_seconds["small"] = 3.0
    part.began = "2026-11-23T20:00:00+00:00"
    both = whole.replaced(part)
    assert dict(both.medians()) == {
        "first_row/tubeclient": pytest.approx(0.867, abs=0.001),
        "small/one_store/tubeclient": 1.0,
    }
    assert both.group_seconds == {"small": 3.0, "first_row": 8.0}
    assert (both.began, both.later) == (whole.began, {"small": "2026-11-23, load 0.2 before and 1.5 after"})
    assert "The group small is of a later run (2026-11-23, load 0.2 before and 1.5 after)." in tables(both)
    assert Results.from_json(both.to_json()) == both


def test_a_figure_is_added_once_and_with_values() -> None:
    results = make_results()
    with pytest.raises(ValueError, match="measured already"):
        results.add("first_row/tubeclient", "again", "seconds", [1.0])
    with pytest.raises(ValueError, match="no values"):
        results.add("first_row/kafka", "none", "seconds", [])


def test_targets_are_judged_by_medians() -> None:
    verdict = judge(make_results().medians())[0]
    assert verdict.target.name.startswith("share of the broker's ceiling, 2 M x 100 bytes, 8 partitions")
    assert verdict.value == 0.85
    assert verdict.reached


def test_what_was_not_measured_is_not_reached() -> None:
    assert all(verdict.value is None and not verdict.reached for verdict in judge({}))


@pytest.mark.parametrize(
    ("value", "at_least", "reached"), [(1.0, True, True), (0.99, True, False), (1.01, False, False)]
)
def test_a_goal_is_a_least_or_a_most(value: float, at_least: bool, reached: bool) -> None:
    assert Verdict(Target("some", lambda _: value, 1.0, at_least), value).reached is reached


def test_every_target_is_computed_from_what_a_run_measures() -> None:
    """With all keys at 1 each ratio is 1, whatever it is of."""
    places = [layout.key for layout in LAYOUTS]
    keys = {
        f"{work.key}/{place}/{side}" for work in WORKLOADS for place in places for side in ("ceiling", "tubeclient")
    }
    keys |= {f"{work.key}/kafka/{side}" for work in WORKLOADS for side in ("ceiling", "source")}
    keys |= {f"small/{place}/{side}" for place in places for side in ("java", "embedded")}
    keys |= {f"growth/stores_{count}/tubeclient" for count in GROWING_PARTITIONS}
    keys |= {"decode/plain", "decode/attributes", "streaming/tubeclient", "streaming/batch_tubeclient"}
    keys |= {"inlong/decode", "inlong/java", "inlong/packs", "inlong/raw"}
    keys |= {"latency/tubeclient", "latency/kafka"}
    keys |= {"first_row/tubeclient", "first_row/kafka", "first_row/java_pull"}
    keys |= {"growth/stores_8/planning", "growth/stores_128/planning"}
    *ratios, planning = [verdict.value for verdict in judge(dict.fromkeys(keys, 1.0))]
    assert ratios == [1.0] * (len(TARGETS) - 1)
    assert planning == 1 / 16


def test_targets_have_names_of_their_own_and_reasons_are_of_targets() -> None:
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    assert set(REASONS) <= set(names)


def test_a_reason_stands_behind_what_is_missed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    results = make_results()
    name = TARGETS[0].name
    monkeypatch.setattr("bench.targets.REASONS", {name: "the moon is too far"})
    assert "too far" not in tables(results)
    results.figures["small/one_store/ceiling"] = Figure("the ceiling", "rows/s", (2_000_000,))
    assert f"| {name} | at least 0.85 | 0.42 | missed: the moon is too far |" in tables(results)


def test_growth_is_the_slowest_over_the_fastest() -> None:
    medians = {
        "growth/stores_8/tubeclient": 10.0,
        "growth/stores_32/tubeclient": 8.0,
        "growth/stores_128/tubeclient": 6.0,
    }
    assert judge(medians)[-2].value == 0.6


def test_tables_have_targets_and_figures() -> None:
    text = tables(make_results())
    assert "| at least 0.85 | 0.85 | reached |" in text
    assert "| at least 0.90 | | not measured |" in text
    assert "| ours | rows/s | 700 000 | 850 000 | 950 000 |" in text
    assert "| first row | seconds | 0.500 | 0.867 | 1.235 |" in text
    assert "Tried out" not in text


def test_a_run_on_a_scale_says_so() -> None:
    results = make_results()
    results.scale = 0.05
    assert "**Tried out with 0.05 of the messages.**" in tables(results)


def test_text_is_put_between_the_marks_again_and_again() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nbehind\n"
    once = put_between(page, "new\n")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nbehind\n"
    assert put_between(once, "new\n") == once
    with pytest.raises(ValueError, match="needs the lines"):
        put_between("nothing", "new")


def test_the_page_shows_the_results() -> None:
    results = Results.from_json(RESULTS_FILE.read_text())
    page = PAGE.read_text()
    assert put_between(page, tables(results)) == page
    assert PAGE.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_has_a_bar_for_each_side(tmp_path: Path) -> None:
    results = make_results()
    bars = bars_of(results, "small")
    assert {heading: [bar.label for bar in found] for heading, found in bars.items()} == {
        "8 partitions in one store": ["broker's ceiling", "Spark, tubeclient"]
    }
    draw(results, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_scaled_backlogs_fall_evenly_on_all_partitions_and_whole_ones_stay() -> None:
    for workload in WORKLOADS:
        assert scaled(workload, 1) == workload
        assert all(scaled(workload, scale).messages % PARTITIONS == 0 for scale in (0.05, 0.00371, 0.0123457))
