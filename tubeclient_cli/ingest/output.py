"""What `tubeclient ingest` prints of a job: lines for people, or a JSON object for each event."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

import typer

from tubeclient.conditions import error_text
from tubeclient.printable import counted
from tubeclient_cli.common.terminal import one_line, print_json
from tubeclient_ingest.commits.stream_ends import LeftBehind, ToRest
from tubeclient_ingest.run import Begins, Event, IngestSummary, Reading, Round, SparkWrites
from tubeclient_ingest.settings.table_by import REST

_EVERY_SECONDS = 5.0
"""Rounds are often shorter, and people need no line for each."""


class EventPrinter:
    """Prints events; `count` gets them too."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._next = 0.0
        self._rounds = 0
        self._left: set[str] = set()
        """The streams that stay behind."""
        self.reading = False
        """Whether the first round has begun."""
        self.count: Callable[[Event], object] = lambda _: None

    def say(self, text: str, event: str = "starting") -> None:
        """Print a line, or the event with this text."""
        if self._as_json:
            print_json({"event": event, "text": text})
        else:
            typer.echo(one_line(text))

    def __call__(self, event: Event) -> None:
        self.count(event)
        match event:
            case Begins(text):
                self.say(text, "begin")
            case SparkWrites(reason):
                self.say(f"Spark writes the target's files, not the tasks that read: {reason}", "writer")
            case Reading():
                self.reading = True
            case LeftBehind(stream, reason):
                self._left.add(stream)
                self.say(f"stream {stream} is left behind, and the others continue: {reason}", "left")
            case ToRest(None):
                self.say(f"some records name no table; they go to the table {REST}", "rest")
            case ToRest(stream):
                self.say(f"stream {stream} has no definition or no table; its rows go to the table {REST}", "rest")
            case Round() if self._as_json:
                print_json({"event": "round", **asdict(event)})
            case Round():
                self._rounds += 1
                if time.monotonic() >= self._next:
                    self._next = time.monotonic() + _EVERY_SECONDS
                    typer.echo(
                        f"{counted(event.total_rows, 'row')} written"
                        f"{_apart(event.total_bad_rows, event.total_other_rows)} in {counted(self._rounds, 'round')},"
                        f" {event.rows_per_second:,.0f} rows/s, {_behind(event.rows_behind, len(self._left))}"
                    )

    def end(self, summary: IngestSummary) -> None:
        """Print the last line of a run."""
        if self._as_json:
            fields = asdict(summary)
            print_json({"event": "stopped" if fields.pop("stopped") else "done", **fields})
        else:
            typer.echo(summary_line(summary))


def print_error(error: BaseException) -> None:
    """The event of a job that failed; `condition` is the error's name, null if it has none."""
    print_json({"event": "error", "condition": getattr(error, "condition", None), "text": error_text(error)})


def summary_line(summary: IngestSummary) -> str:
    """The last line of a run."""
    rate = summary.rows / summary.seconds if summary.seconds else 0.0
    return (
        f"{'stopped' if summary.stopped else 'done'}: {counted(summary.rows, 'row')} written"
        f"{_apart(summary.bad_rows, summary.other_rows)} in"
        f" {counted(summary.rounds, 'round')}, {summary.seconds:.1f} s, {rate:,.0f} rows/s,"
        f" {_behind(summary.rows_behind)}"
    )


def _apart(bad: int, others: int) -> str:
    found = [f"{count:,} {what}" for count, what in ((bad, "bad"), (others, "that change no row")) if count]
    return f" (plus {', '.join(found)})" if found else ""


def _behind(rows: int | None, streams: int = 0) -> str:
    if rows is None:
        return "messages behind unknown"
    found = "nothing behind" if rows == 0 else f"at most {rows:,} messages behind"
    return f"{found} but {counted(streams, 'stream')}" if streams else found
