"""Rounds as they are told to a file."""

from __future__ import annotations

import json
from pathlib import Path

from tubeclient_ingest.progress import ProgressFile, Round


def round_of(total_rows: int) -> Round:
    return Round("2026-01-01T00:00:00.000+00:00", 2, 10, total_rows, 1.0, 10.0, 0)


def test_the_progress_file_has_a_line_for_each_round_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "progress.jsonl"
    with ProgressFile(path) as file:
        file.done(round_of(10))
        assert json.loads(path.read_text()) == {
            "time": "2026-01-01T00:00:00.000+00:00",
            "sequence": 2,
            "rows": 10,
            "total_rows": 10,
            "seconds": 1.0,
            "rows_per_second": 10.0,
            "rows_behind": 0,
            "bad_rows": 0,
            "total_bad_rows": 0,
        }
    with ProgressFile(path) as file:
        file.done(round_of(20))
    assert [json.loads(line)["total_rows"] for line in path.read_text().splitlines()] == [10, 20]
