"""The demonstration's chart, and the progress files that it is drawn from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from jobs.demo_chart import draw, read_progress


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    assert read_progress(path) == []
    path.write_text('{"total_rows": 1}\n{"total_')
    assert read_progress(path) == [{"total_rows": 1}]


def test_the_chart_is_a_picture_even_of_a_run_without_batches(tmp_path: Path) -> None:
    run = [{"time": "2026-01-01T00:00:05+00:00", "total_rows": 10, "rows_behind": 5}]
    for number, runs in enumerate(([run, []], [run, run])):
        picture = tmp_path / str(number) / "chart.png"
        draw(runs, datetime(2026, 1, 1, tzinfo=UTC), 20, picture)
        assert picture.read_bytes().startswith(b"\x89PNG")
