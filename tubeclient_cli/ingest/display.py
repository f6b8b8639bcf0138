"""Display of a running job: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tubeclient_cli.common.console import PlainConsole

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from tubeclient_cli.ingest.progress import BatchEvent
    from tubeclient_cli.ingest.watch import IngestSummary

__all__ = ["Display", "summary_line"]

_PLAIN_EVERY_SECONDS = 5.0


class Display:
    """Shows batches as they complete: a log gets a line every five seconds, a terminal one line with a bar. The bar is
    full when nothing is left to read."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console = console or PlainConsole()
        self._next_plain = 0.0
        self._batches = 0
        self._live: Progress | None = None
        if console.is_terminal:
            text = TextColumn("{task.description}", markup=False)
            columns = (SpinnerColumn(), BarColumn(12), TaskProgressColumn(), text)
            self._live = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
            self._task = self._live.add_task("waiting for the first batch", total=None)

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

    def start(self, text: str) -> None:
        """Print where the job begins."""
        self.say(text)

    def first(self) -> None:
        """Show that the first batch runs."""
        if self._live is not None and not self._batches:
            self._live.update(self._task, description="the first batch is running")

    def stopped(self, text: str) -> None:
        """Print how a job ended that was stopped outside of its batches."""
        self.say(text)

    def failed(self, cause: str) -> None:
        """Nothing: the command's last line, on standard error, has the cause."""

    def end(self, summary: IngestSummary) -> None:
        """Print the last line of a run."""
        self.say(summary_line(summary))

    def show(self, event: BatchEvent) -> None:
        """Show a completed batch."""
        self._batches += 1
        text = (
            f"{event.total_rows:,} rows{_bad(event.total_bad_rows)} in {_batches(self._batches)},"
            f" {event.rows_per_second:,.0f} rows/s, {_behind(event.rows_behind, 1)}"
        )
        if self._live is not None:
            known = None if event.rows_behind is None else event.total_rows + event.rows_behind
            # If the rest is unknown, rich keeps the last total.
            self._live.update(self._task, description=text, completed=event.total_rows, total=known)
        elif time.monotonic() >= self._next_plain:
            self._next_plain = time.monotonic() + _PLAIN_EVERY_SECONDS
            self.say(text)


def summary_line(summary: IngestSummary) -> str:
    """The last line of a run."""
    rate = summary.rows / summary.seconds if summary.seconds else 0.0
    return (
        f"{'stopped' if summary.stopped else 'done'}: {summary.rows:,} rows{_bad(summary.bad_rows)} in"
        f" {_batches(summary.batches)},"
        f" {summary.seconds:.1f} s, {rate:,.0f} rows/s, {_behind(summary.rows_behind, summary.batches)}"
    )


def _batches(number: int) -> str:
    return f"{number:,} batch{'' if number == 1 else 'es'}"


def _bad(rows: int) -> str:
    return f" ({rows:,} bad)" if rows else ""


def _behind(rows: int | None, batches: int) -> str:
    if rows is None:
        return f"messages behind unknown{', as an earlier run planned this batch' if batches else ''}"
    return "nothing behind" if rows == 0 else f"at most {rows:,} messages behind"
