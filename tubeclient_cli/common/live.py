"""What a terminal shows of work that lasts: one line on standard error, which is gone at the end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["live_line", "live_tasks"]


@contextlib.contextmanager
def live_line(text: Callable[[], str], *, show: bool | None = None) -> Iterator[None]:
    """While the block runs, show `text()` and the seconds since its start. `show` None: if standard error is a
    terminal. `text` is called four times a second, by another thread."""
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    began = time.monotonic()

    class Line:
        def __rich__(self) -> Text:
            return Text(f"{text()}, {time.monotonic() - began:.0f} s")

    with Live(Line(), console=Console(stderr=True), refresh_per_second=4, transient=True):
        yield


@contextlib.contextmanager
def live_tasks(spark: SparkSession, what: str) -> Iterator[None]:
    """While the block runs, show how many tasks of Spark's running stages are done. Spark's own UI shows its jobs under
    the description `what`. A client of Spark Connect is not told of either, so there it is `what` alone."""
    from spark_source.session import is_connect

    if is_connect(spark):
        with live_line(lambda: what):
            yield
        return
    context = spark.sparkContext
    context.setJobDescription(what)
    tracker = context.statusTracker()

    def text() -> str:
        with contextlib.suppress(Exception):  # a session that ends; the block tells why
            stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
            if stages:
                done, tasks = (sum(getattr(one, name) for one in stages) for name in ("numCompletedTasks", "numTasks"))
                return f"{what}: {done:,} of {tasks:,} tasks done"
        return what

    with live_line(text):
        yield
