"""Rounds as they are told in logs and on terminals, and how the job says that it ended."""

from __future__ import annotations

import io
import re

from rich.console import Console

from tubeclient_cli.ingest.display import Display, summary_line
from tubeclient_ingest.progress import IngestSummary, Round


def shown(terminal: bool, width: int = 120) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width)
    with Display(console) as display:
        for total in (10, 20):
            display.done(Round("2026-01-01T00:00:00.000+00:00", 0, 10, total, 1.0, 10.0, 1_234))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_log_gets_plain_lines_and_not_one_for_each_round() -> None:
    assert shown(terminal=False) == "10 rows in 1 round, 10 rows/s, at most 1,234 messages behind\n"


def test_a_terminal_gets_one_line_with_a_bar_of_what_is_read() -> None:
    drawn = shown(terminal=True, width=80)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn)
    assert text != drawn
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    # 20 of 1 254 rows.
    assert [line for line in lines if " 2% 20 rows in 2 rounds" in line]


def test_a_terminal_tells_waiting_from_the_first_round() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with Display(console) as display:
        display._live.refresh()  # type: ignore[union-attr]
        display.reads()
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert 0 < drawn.index("waiting for the first round") < drawn.index("the first round is running")


def test_the_summary_says_how_it_ended() -> None:
    line = summary_line(IngestSummary(rows=3_000, rounds=2, seconds=1.5, rows_behind=0, stopped=True))
    assert line == "stopped: 3,000 rows in 2 rounds, 1.5 s, 2,000 rows/s, nothing behind"
    line = summary_line(IngestSummary(rows=0, rounds=0, seconds=0.0, rows_behind=None, stopped=False))
    assert line == "done: 0 rows in 0 rounds, 0.0 s, 0 rows/s, messages behind unknown"


def test_bad_records_are_counted() -> None:
    console = Console(file=io.StringIO(), width=120)
    with Display(console) as display:
        display.done(Round("2026-01-01T00:00:00.000+00:00", 0, 10, 3_010, 1.0, 10.0, 0, 2, 1_002))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("3,010 rows (1,002 bad) in 1 round, ")
    line = summary_line(IngestSummary(3_010, rounds=1, seconds=1.0, rows_behind=0, stopped=False, bad_rows=1_002))
    assert line.startswith("done: 3,010 rows (1,002 bad) in 1 round, ")
