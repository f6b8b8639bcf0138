"""What a terminal shows of work that lasts: one line on standard error, which is gone at the end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["live_line", "live_tasks"]


@contextlib.contextmanager
def live_line(text: Callable[[], str]) -> Iterator[None]:
    """While the block runs, show `text()` if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(text())):
        yield


@contextlib.contextmanager
def live_tasks(spark: SparkSession, what: str) -> Iterator[None]:
    """The same for work of Spark, whose UI shows its jobs under the description `what`. A client of Spark Connect is
    not told of them."""
    from spark_source.session import is_connect

    if not is_connect(spark):
        spark.sparkContext.setJobDescription(what)
    with live_line(lambda: what):
        yield
