"""Display of a running job: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tubeclient_cli.common.tables import PlainConsole
from tubeclient_ingest.progress import Events

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from tubeclient_ingest.progress import IngestSummary, Round

__all__ = ["Display", "summary_line"]

_PLAIN_EVERY_SECONDS = 5.0


class Display(Events):
    """Shows rounds as they complete: a log gets a line every five seconds, a terminal one line with a bar. The bar is
    full when nothing is left to read."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console = console or PlainConsole()
        self._next_plain = 0.0
        self._rounds = 0
        self._live: Progress | None = None
        if console.is_terminal:
            text = TextColumn("{task.description}", markup=False)
            columns = (SpinnerColumn(), BarColumn(12), TaskProgressColumn(), text)
            self._live = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
            self._task = self._live.add_task("waiting for the first round", total=None)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, soft_wrap=True)

    def begins(self, text: str) -> None:
        self.say(text)

    def reads(self) -> None:
        if self._live is not None and not self._rounds:
            self._live.update(self._task, description="the first round is running")

    def stopped(self, text: str) -> None:
        """Print how a job ended that was stopped outside of its rounds."""
        self.say(text)

    def failed(self, cause: str) -> None:
        """Nothing: the command's last line, on standard error, has the cause."""

    def end(self, summary: IngestSummary) -> None:
        """Print the last line of a run."""
        self.say(summary_line(summary))

    def done(self, round_: Round) -> None:
        self._rounds += 1
        text = (
            f"{round_.total_rows:,} rows{_bad(round_.total_bad_rows)} in {_rounds(self._rounds)},"
            f" {round_.rows_per_second:,.0f} rows/s, {_behind(round_.rows_behind)}"
        )
        if self._live is not None:
            known = None if round_.rows_behind is None else round_.total_rows + round_.rows_behind
            # If the rest is unknown, rich keeps the last total.
            self._live.update(self._task, description=text, completed=round_.total_rows, total=known)
        elif time.monotonic() >= self._next_plain:
            self._next_plain = time.monotonic() + _PLAIN_EVERY_SECONDS
            self.say(text)


def summary_line(summary: IngestSummary) -> str:
    """The last line of a run."""
    rate = summary.rows / summary.seconds if summary.seconds else 0.0
    return (
        f"{'stopped' if summary.stopped else 'done'}: {summary.rows:,} rows{_bad(summary.bad_rows)} in"
        f" {_rounds(summary.rounds)},"
        f" {summary.seconds:.1f} s, {rate:,.0f} rows/s, {_behind(summary.rows_behind)}"
    )


def _rounds(number: int) -> str:
    return f"{number:,} round{'' if number == 1 else 's'}"


def _bad(rows: int) -> str:
    return f" ({rows:,} bad)" if rows else ""


def _behind(rows: int | None) -> str:
    if rows is None:
        return "messages behind unknown"
    return "nothing behind" if rows == 0 else f"at most {rows:,} messages behind"
