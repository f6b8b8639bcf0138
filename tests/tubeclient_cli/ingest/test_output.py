"""What `tubeclient ingest` prints of a job."""

from __future__ import annotations

import pytest

from tubeclient_cli.ingest.output import EventPrinter, summary_line
from tubeclient_ingest.commits.stream_ends import LeftBehind
from tubeclient_ingest.run import IngestSummary, Round


def test_a_round_says_how_many_streams_stay_behind(capsys: pytest.CaptureFixture[str]) -> None:
    output = EventPrinter(as_json=False)
    for stream in ("clicks", "clicks", "views"):
        output(LeftBehind(stream, "no table"))
    output(Round("", 1, 5, 5, 0.5, 10.0, 0))
    assert capsys.readouterr().out.endswith("5 rows written in 1 round, 10 rows/s, nothing behind but 2 streams\n")


def test_last_line_counts_bad_records() -> None:
    """The last line counts bad records separately from written rows."""
    done = IngestSummary(rows=100, rounds=2, seconds=1.0, rows_behind=0, stopped=False, bad_rows=5)
    assert summary_line(done).startswith("done: 100 rows written (plus 5 bad) in 2 rounds, ")
