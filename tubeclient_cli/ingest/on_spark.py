"""A Spark session for one piece of work: what goes wrong is one line, and an exit code. Spark's output is in a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer

from spark_source.session import STARTING_SPARK
from tubeclient.conditions import said
from tubeclient.extras import brought_by
from tubeclient_cli.common.live import live_line
from tubeclient_cli.common.terminal import Unreachable, exit_code_of, tell
from tubeclient_ingest.advice import short_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_source.spark_log import SparkLog

__all__ = ["leave", "on_spark"]


@contextlib.contextmanager
def on_spark(
    name: str,
    master: str | None = None,
    confs: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """The session of `make_session`, which ends with the block. A terminal shows that Spark starts.

    Unreachable if it does not start. An error of Spark within the block becomes a line that begins with `name`, and the
    exit code of `exit_code_of`. Then the file of Spark's output is left, and named.
    """
    with brought_by("spark"):
        from tubeclient_ingest.target import spark_errors

        errors = spark_errors()

    from spark_source.spark_log import SparkLog, start_failure
    from tubeclient_cli.common.session import end_session, make_session

    with SparkLog() as log:
        try:
            with live_line(lambda: STARTING_SPARK):
                spark = make_session(name, master, confs or {}, log)
        except errors as error:
            leave(log)
            raise Unreachable(start_failure(log.text()) or short_cause(said(error))) from None
        try:
            yield spark
        except errors as error:
            if isinstance(error, OSError):
                raise
            leave(log)
            cause = short_cause(said(error))
            tell(f"{name}: {cause}")
            raise typer.Exit(exit_code_of(cause)) from None
        finally:
            end_session(spark)


def leave(log: SparkLog | None) -> None:
    """Keep the file of Spark's output, and name it."""
    if log is not None:
        log.keep()
        tell(f"Spark's output is in {log.path}")
