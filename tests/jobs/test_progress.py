"""Batches as they are told: to files, on terminals, in pictures."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from jobs.demo_chart import draw, read_progress
from tubeclient.keys import PartitionKey, rows_behind
from tubeclient_cli.ingest.display import Display, summary_line
from tubeclient_cli.ingest.job import IngestSummary
from tubeclient_cli.ingest.progress import BatchEvent, ProgressFile

SPARKS: dict[str, Any] = {
    "timestamp": "2026-03-04T05:06:07.500Z",
    "batchId": 3,
    "batchDuration": 2_000,
    "numInputRows": 30,
    "sources": [
        {
            "latestOffset": {"1:clicks:0": {"0-1": 2800}, "1:clicks:1": {"10000": 280}},
            "endOffset": {"1:clicks:0": {"0-1": 1400}, "1:clicks:1": {"10000": 280}},
        }
    ],
}


def event(total_rows: int, second: int = 0, behind: int | None = 0) -> BatchEvent:
    return BatchEvent(f"2026-01-01T00:00:{second:02}.000+00:00", 0, 10, total_rows, 1.0, 10.0, behind)


def test_an_event_is_made_of_sparks_progress() -> None:
    assert BatchEvent.of(SPARKS, 100) == BatchEvent(
        time="2026-03-04T05:06:09.500+00:00",
        batch_id=3,
        rows=30,
        total_rows=130,
        seconds=2.0,
        rows_per_second=15.0,
        rows_behind=50,
    )


def test_rows_behind_is_unknown_where_the_source_does_not_say() -> None:
    source = {**SPARKS["sources"][0], "latestOffset": None}
    assert BatchEvent.of({**SPARKS, "sources": [source]}, 0).rows_behind is None


def test_rows_behind_counts_a_store_once_and_never_below_zero() -> None:
    a, b, c = PartitionKey(1, "x", 0), PartitionKey(1, "x", 1), PartitionKey(2, "x", 0)
    assert rows_behind({a: 280, b: 280, c: 28}, {a: 0, b: 140, c: 56}) == 10
    assert rows_behind({a: 280}, {}) == 10


def test_the_progress_file_has_a_line_for_each_event_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "progress.jsonl"
    with ProgressFile(path) as file:
        file.write(event(10))
        assert [found["total_rows"] for found in read_progress(path)] == [10]
    with ProgressFile(path) as file:
        file.write(event(20))
    assert [json.loads(line)["total_rows"] for line in path.read_text().splitlines()] == [10, 20]


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    assert read_progress(path) == []
    path.write_text('{"total_rows": 1}\n{"total_')
    assert read_progress(path) == [{"total_rows": 1}]


def shown(terminal: bool, width: int = 120) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width)
    with Display(console) as display:
        for total in (10, 20):
            display.show(event(total, behind=1_234))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_log_gets_plain_lines_and_not_one_for_each_batch() -> None:
    assert shown(terminal=False) == "10 rows in 1 batches, 10 rows/s, at most 1,234 rows behind\n"


def test_a_terminal_gets_one_line_with_a_bar_of_what_is_read() -> None:
    drawn = shown(terminal=True, width=80)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn)
    assert text != drawn
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    # 20 of 1 254 rows.
    assert [line for line in lines if " 2% 20 rows in 2 batches" in line]


def test_the_summary_says_how_it_ended() -> None:
    line = summary_line(IngestSummary(rows=3_000, batches=2, seconds=1.5, rows_behind=0, stopped=True))
    assert line == "stopped: 3,000 rows in 2 batches, 1.5 s, 2,000 rows/s, nothing behind"
    line = summary_line(IngestSummary(rows=0, batches=0, seconds=0.0, rows_behind=None, stopped=False))
    assert line == "done: 0 rows in 0 batches, 0.0 s, 0 rows/s, rows behind unknown"


def test_the_chart_is_a_picture_even_of_a_run_without_batches(tmp_path: Path) -> None:
    run = [{"time": "2026-01-01T00:00:05+00:00", "total_rows": 10, "rows_behind": 5}]
    for number, runs in enumerate(([run, []], [run, run])):
        picture = tmp_path / str(number) / "chart.png"
        draw(runs, datetime(2026, 1, 1, tzinfo=UTC), 20, picture)
        assert picture.read_bytes().startswith(b"\x89PNG")
