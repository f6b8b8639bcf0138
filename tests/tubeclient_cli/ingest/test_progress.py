"""Batches as they are told to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tubeclient_cli.ingest.progress import BatchEvent, ProgressFile

SPARKS: dict[str, Any] = {
    "timestamp": "2026-03-04T05:06:07.500Z",
    "batchId": 3,
    "batchDuration": 2_000,
    "numInputRows": 30,
    "sources": [
        {
            "latestOffset": {"1:clicks:0": {"0-1": 2800}, "1:clicks:1": {"10000": 280}, "version": 1},
            "endOffset": {"1:clicks:0": {"0-1": 1400}, "1:clicks:1": {"10000": 280}, "version": 1},
        }
    ],
}


def event(total_rows: int) -> BatchEvent:
    return BatchEvent("2026-01-01T00:00:00.000+00:00", 0, 10, total_rows, 1.0, 10.0, 0)


def test_an_event_is_made_of_sparks_progress() -> None:
    assert BatchEvent.of(SPARKS, BatchEvent("", 2, 100, 100, 1.0, 100.0, 0, 7, 7), 5) == BatchEvent(
        time="2026-03-04T05:06:09.500+00:00",
        batch_id=3,
        rows=30,
        total_rows=130,
        seconds=2.0,
        rows_per_second=15.0,
        rows_behind=50,
        bad_rows=5,
        total_bad_rows=12,
    )


def test_rows_behind_is_unknown_where_the_source_does_not_say() -> None:
    source = {**SPARKS["sources"][0], "latestOffset": None}
    assert BatchEvent.of({**SPARKS, "sources": [source]}, None, 0).rows_behind is None


def test_the_progress_file_has_a_line_for_each_event_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "progress.jsonl"
    with ProgressFile(path) as file:
        file.write(event(10))
        assert json.loads(path.read_text())["total_rows"] == 10
    with ProgressFile(path) as file:
        file.write(event(20))
    assert [json.loads(line)["total_rows"] for line in path.read_text().splitlines()] == [10, 20]
