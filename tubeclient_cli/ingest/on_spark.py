"""A Spark session for one piece of work. Spark's output is in a file."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from spark_source.session import STARTING_SPARK
from tubeclient.conditions import said
from tubeclient.extras import brought_by
from tubeclient_cli.common.terminal import Unreachable, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["on_spark"]


@contextlib.contextmanager
def on_spark(
    name: str,
    master: str | None,
    confs: Mapping[str, str],
    *,
    with_avro: bool = False,
    say: Callable[[str], object] = tell,
    verbose: bool = False,
    stop: threading.Event | None = None,
) -> Iterator[SparkSession]:
    """The session of `make_session`, which ends with the block; `say` tells that it starts. Unreachable if it does not.

    After an error, unless `stop` is set, the file of Spark's output is left, and named; with `verbose` there is none.
    """
    with brought_by("spark"):
        from tubeclient_ingest.spark_errors import failure, spark_errors

        errors = spark_errors()

    from spark_source.spark_log import SparkLog, start_failure
    from tubeclient_cli.common import session

    say(STARTING_SPARK)
    with contextlib.ExitStack() as stack:
        log = None if verbose else stack.enter_context(SparkLog())
        try:
            try:
                spark = session.make_session(name, master, confs, log, with_avro=with_avro)
            except errors as error:
                why = start_failure(log.text()) if log is not None else None
                found = failure(why or str(error))
                raise Unreachable(said(found), found.condition) from None
            try:
                yield spark
            finally:
                session.end_session(spark)
        except Exception:
            if log is not None and not (stop is not None and stop.is_set()):
                log.keep()
                tell(f"Spark's output is in {log.path}")
            raise
