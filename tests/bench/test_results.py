"""Figures, targets and tables of `make bench`: pure, and what the docs show is what the results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.plot import bars_of, draw, panels_of
from bench.results import RESULTS_FILE, Figure, Results, Spread
from bench.tables import END, PARTS, begin, filled, put_between, tables
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
    assert (both.began, both.later) == (whole.began, {"small": "2026-11-23, load 0.2 before and 1.5 after, 3 rounds"})
    assert "The group small is of a later run (2026-11-23, load 0.2 before and 1.5 after, 3 rounds)." in tables(both)
    assert Results.from_json(both.to_json()) == both


def test_a_figure_is_added_once_and_with_values() -> None:
    results = make_results()
    with pytest.raises(ValueError, match="measured already"):
        results.add("first_row/tubeclient", "again", "seconds", [1.0])
    with pytest.raises(ValueError, match="no values"):
        results.add("first_row/kafka", "none", "seconds", [])


def test_targets_are_judged_by_medians() -> None:
    name = "share of the broker's ceiling, 2 M x 100 bytes, 8 partitions in one store"
    [verdict] = [one for one in judge(make_results().medians()) if one.target.name == name]
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
    keys |= {f"{work.key}/kafka/{side}" for work in WORKLOADS for side in ("ceiling", "impatient")}
    keys |= {f"executor_cpu/{work.key}/kafka/executors" for work in WORKLOADS}
    keys |= {
        f"executor_cpu/{work.key}/{place}/{who}/executors"
        for work in WORKLOADS
        for place in places
        for who in ("all", "value")
    }
    keys |= {f"writing/{side}" for side in ("java", "many", "spark", "java_to_embedded")}
    keys |= {f"small/{place}/{side}" for place in places for side in ("java", "embedded")}
    keys |= {f"growth/stores_{count}/tubeclient" for count in GROWING_PARTITIONS}
    keys |= {"decode/plain", "decode/attributes", "streaming/tubeclient", "streaming/batch_tubeclient"}
    keys |= {"inlong/decode", "inlong/java", "inlong/packs", "inlong/raw"}
    keys |= {"latency/tubeclient", "latency/kafka_impatient"}
    keys |= {"first_row/tubeclient", "first_row/kafka_impatient", "first_row/java_pull"}
    keys |= {"growth/stores_8/planning", "growth/stores_128/planning"}
    *ratios, planning = [verdict.value for verdict in judge(dict.fromkeys(keys, 1.0))]
    assert ratios == [1.0] * (len(TARGETS) - 1)
    assert planning == 1 / 16


def test_targets_have_names_of_their_own_and_reasons_are_of_targets() -> None:
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    assert set(REASONS) <= set(names)


def test_each_reason_is_a_note_once_and_what_is_missed_names_it_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    results = make_results()
    results.add("small/eight_stores/tubeclient", "ours", "rows/s", [1_000_000])
    results.add("small/eight_stores/ceiling", "the ceiling", "rows/s", [2_000_000])
    results.add("small/eight_stores/java", "Java", "rows/s", [1_000_000])
    results.add("few/one_store/tubeclient", "ours", "rows/s", [1_000])
    results.add("few/kafka/impatient", "Kafka's", "rows/s", [2_000])
    shares = [f"share of the broker's ceiling, 2 M x 100 bytes, {layout.title}" for layout in LAYOUTS]
    java = "rows/s over Java's ClientBalanceConsumer, 100 bytes, 8 stores of one partition"
    kafka = "rows/s over Spark's Kafka source, 0.5 M x 100 bytes, 8 partitions in one store"
    unmeasured = "the same over Apache's InLongMsg in Java, one thread"
    reasons = {**dict.fromkeys(shares, "The moon is far."), java: "It rains.", unmeasured: "Nobody looked."}
    monkeypatch.setattr("bench.targets.REASONS", reasons)

    text = tables(results)  # reached with one store: its reason is left out
    assert f"| {shares[0]} | at least 0.85 | 0.85 | reached |" in text
    assert f"| {shares[1]} | at least 0.85 | 0.50 | missed (1) |" in text
    assert f"| {kafka} | at least 1.00 | 0.50 | missed |" in text
    assert f"| {java} | at least 2.00 | 1.00 | missed (2) |" in text
    assert "\n\n1. The moon is far.\n2. It rains.\n\n| measured |" in text
    assert "Nobody looked" not in text

    results.figures["small/one_store/ceiling"] = Figure("the ceiling", "rows/s", (2_000_000,))
    text = tables(results)
    for share, found in zip(shares, ("0.42", "0.50"), strict=True):
        assert f"| {share} | at least 0.85 | {found} | missed (1) |" in text
    assert text.count("The moon is far.") == 1


def test_a_run_that_misses_nothing_with_a_reason_has_no_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.targets.REASONS", {})
    assert "Why a target is missed" not in tables(make_results())


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
    page = f"before\n{begin('one')}\nold\n{END}\nbetween\n{begin('two')}\n{END}\nbehind\n"
    once = put_between(page, "one", "new\n")
    assert once == f"before\n{begin('one')}\n\nnew\n\n{END}\nbetween\n{begin('two')}\n{END}\nbehind\n"
    assert put_between(once, "one", "new\n") == once
    assert put_between(page, "two", "new") == page.replace(f"{begin('two')}\n", f"{begin('two')}\n\nnew\n")
    with pytest.raises(ValueError, match="needs the lines"):
        put_between(page, "three", "new")


def test_the_page_shows_the_results() -> None:
    results = Results.from_json(RESULTS_FILE.read_text())
    page = PAGE.read_text()
    assert filled(page, results) == page
    assert all(page.count(begin(part)) == 1 for part in PARTS)
    assert PAGE.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def executor_cpu(results: Results) -> None:
    for side, python, jvm in (("one_store/all", 0.9, 0.6), ("one_store/value", 0.8, 0.4), ("kafka", 0.0, 2.0)):
        for part, value in (("executors", python + jvm), ("python", python), ("jvm", jvm), ("broker", 4.56)):
            results.add(f"executor_cpu/small/{side}/{part}", side, "CPU s for a million rows", [value])


def test_what_a_row_costs_has_its_own_table_and_its_ratio_to_kafkas() -> None:
    results = make_results()
    executor_cpu(results)
    table = PARTS["what a row costs"](results)
    assert "| 2 M x 100 bytes, all nine columns | 0.90 + 0.60 | 0.75 | - | - | 2.00 |" in table
    assert "| 2 M x 100 bytes, `columns=value` | 0.80 + 0.40 | 0.60 | - | - | 2.00 |" in table
    assert "| 300 k x 1 KB, all nine columns | - | - | - | - | - |" in table
    assert "| broker | 4.56 | - |" in PARTS["what a broker does"](results)
    everything = tables(results)
    assert "source: 100 bytes, 8 partitions in one store, all nine columns | at most 0.60 | 0.75 | missed" in everything
    assert "4.56" not in everything


def test_the_picture_has_a_bar_for_each_side(tmp_path: Path) -> None:
    results = make_results()
    bars = bars_of(results, "small")
    assert {heading: [bar.label for bar in found] for heading, found in bars.items()} == {
        "8 partitions in one store": ["broker's ceiling", "Spark, tubeclient"]
    }
    executor_cpu(results)
    results.add("writing/java", "Java", "messages/s", [20_000])
    panels = {title: [bar.label for bars in groups.values() for bar in bars] for title, groups in panels_of(results)}
    assert list(panels.values()) == [
        ["tubeclient, all nine columns", "tubeclient, columns=value", "Kafka source"],
        ["broker's ceiling", "Spark, tubeclient"],
        ["Apache's Java producer"],
    ]
    draw(results, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_scaled_backlogs_fall_evenly_on_all_partitions_and_whole_ones_stay() -> None:
    for workload in WORKLOADS:
        assert scaled(workload, 1) == workload
        assert all(scaled(workload, scale).messages % PARTITIONS == 0 for scale in (0.05, 0.00371, 0.0123457))
