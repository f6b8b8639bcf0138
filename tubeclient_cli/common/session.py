"""The SparkSession of a command, with Delta; for one piece of work, its output is in a file."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from spark_source.session import (
    STARTING_SPARK,
    asks_for_connect,
    check_spark,
    has_delta,
    is_submitted,
    session_builder,
    start_jvm,
)
from spark_source.session_confs import is_connect
from spark_source.spark_log import SparkLog, start_failure
from spark_source.stream.planner_process import java_parent
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.terminal import Unreachable, print_stderr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["has_ended", "make_session", "on_spark", "silence_py4j"]

_POLL_SECONDS: Final = 0.1
_CONNECT_SECONDS = 5.0
_CONNECT_PORT = 15_002
_WATCH: Final = "spark-jvm-watch"
_WATCH_SECONDS: Final = 1.0
_END_SECONDS = 20.0
"""How long the command may take to say by itself what failed, and to end."""
_REPORT_SECONDS = 1.0
_FAILED: Final = 1


@contextlib.contextmanager
def on_spark(
    name: str,
    master: str | None,
    confs: Mapping[str, str],
    *,
    say: Callable[[str], object] = print_stderr,
    verbose: bool = False,
    stop: threading.Event | None = None,
    ends_with_spark: bool = True,
) -> Iterator[SparkSession]:
    """The session of `make_session`, which ends with the block; `say` tells that it starts. Unreachable if it does not.

    After an error, unless `stop` is set, the file of Spark's output is left, and named; with `verbose` there is none.
    """
    from tubeclient_ingest.tables.spark_errors import failure, spark_errors

    errors = spark_errors()
    say(STARTING_SPARK)
    with contextlib.ExitStack() as stack:
        log = None if verbose else stack.enter_context(SparkLog())
        try:
            try:
                spark = make_session(name, master, confs, log, ends_with_spark=ends_with_spark)
            except errors as error:
                why = start_failure(log.text()) if log is not None else None
                found = failure(why or str(error))
                raise Unreachable(error_text(found), found.condition) from None
            try:
                yield spark
            finally:
                end_session(spark)
        except Exception:
            if log is not None and not (stop is not None and stop.is_set()):
                log.keep()
                print_stderr(f"Spark's output is in {log.path}")
            raise


def make_session(
    app_name: str,
    master: str | None,
    confs: Mapping[str, str],
    log: SparkLog | None = None,
    *,
    ends_with_spark: bool = True,
) -> SparkSession:
    """Start a session on `master` (None: all cores of this machine), or use spark-submit's. A `master` as sc://host, or
    settings that ask for it, give a session of Spark Connect.

    `confs` override the defaults. Under spark-submit, spark-submit sets master and packages, as
    conf/spark-defaults.conf does. With `log` the output of a new JVM goes there. This process ends after the JVM,
    unless `ends_with_spark` is false. Raises ConfigurationError if Spark is too old or lacks Delta's jars;
    MissingPackage.
    """
    import pyspark

    check_spark(pyspark.__version__)
    if asks_for_connect(master or confs.get("spark.master"), confs) is not None:
        return _connected(app_name, master, confs)
    builder = session_builder(app_name, master or "local[*]", confs, with_delta=True)
    if not is_submitted():
        start_jvm(builder, log)
    spark = builder.getOrCreate()
    if ends_with_spark:
        end_after_jvm()
    if not has_delta(spark):
        end_session(spark)
        raise ConfigurationError(
            "Spark is running without Delta's jars. With spark-submit, give --properties-file "
            "conf/spark-defaults.conf, or its spark.jars.packages; or name copies of the jars with --conf "
            "spark.jars=PATH,...",
            condition="JARS_NOT_FOUND",
        )
    return spark


def _connected(app_name: str, master: str | None, confs: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    remote = master or confs.get("spark.master")
    _check_answers(remote or confs.get("spark.remote") or os.environ.get("SPARK_REMOTE", ""))
    if remote is not None:
        builder = builder.remote(remote)
    for name, value in confs.items():
        if name != "spark.master":  # Spark takes one of the two, and a URL of Connect as spark.remote alone
            builder = builder.config(name, value)
    return builder.getOrCreate()


def _check_answers(url: str) -> None:
    """Raise ConnectionError if nothing answers at a URL of Spark Connect: Spark's client would try for ten minutes."""
    try:
        place = urlsplit(url)
        host, port = place.hostname or "", place.port or _CONNECT_PORT
    except ValueError:  # Spark says what is wrong with it
        return
    if place.scheme != "sc":  # `local`
        return
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"no Spark Connect server answers at {host}:{port}: {error}") from None


def has_ended(spark: SparkSession, within_s: float) -> bool:
    """Whether another process ended Spark, or does so within `within_s` seconds: its JVM is gone or shutting down."""
    if is_connect(spark):
        return False
    deadline = time.monotonic() + within_s
    while not _is_stopped(spark):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def end_session(spark: SparkSession) -> None:
    """Stop Spark, unless it has ended already."""
    if is_connect(spark):
        spark.stop()
        return
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError, OSError):
        if not _is_stopped(spark):
            spark.stop()


def silence_py4j(while_set: threading.Event) -> None:
    """Once this event is set, say nothing of calls that the JVM's end cut short.

    Py4J logs each with all its tracebacks, even from Python's garbage collector, and pyspark's server of accumulators
    prints one. Calls that matter fail the job anyway.
    """
    from pyspark import accumulators

    def heard(record: logging.LogRecord) -> bool:
        return not (while_set.is_set() and Path(record.pathname).parent.name == "py4j")

    for name in (None, "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(heard)
    shown = accumulators.AccumulatorTCPServer.handle_error

    def handle_error(server: Any, *request: Any) -> None:
        if not while_set.is_set():
            shown(server, *request)

    for kind in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        kind.handle_error = handle_error  # type: ignore[method-assign, assignment]


def _is_stopped(spark: SparkSession) -> bool:
    from py4j.protocol import Py4JError

    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def end_after_jvm() -> None:
    """From now on, end this process some seconds after Spark's JVM, if it does not end by itself.

    Python's calls into a JVM that was killed fail at once, as a rule. They wait for ever if it was killed while it
    started another process: Java's half-started one (jspawnhelper) lives on and keeps their sockets open.

    Call it while Spark runs, as often as you like: a process has one JVM. Does nothing where that is neither this
    process's child nor, under spark-submit, its parent.
    """
    is_there = _jvm()
    if is_there is not None and not any(thread.name == _WATCH for thread in threading.enumerate()):
        threading.Thread(target=_follow, args=(is_there,), name=_WATCH, daemon=True).start()


def _jvm() -> Callable[[], bool] | None:
    """Says whether the JVM runs; None if its process is unknown."""
    from pyspark import SparkContext

    if is_submitted():
        return java_parent()
    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else lambda: process.poll() is None


def _follow(is_there: Callable[[], bool]) -> None:
    while is_there():
        time.sleep(_WATCH_SECONDS)
    time.sleep(_END_SECONDS)
    # Nobody may read standard error, and it may be full.
    telling = threading.Thread(target=_report, daemon=True)
    telling.start()
    telling.join(_REPORT_SECONDS)
    os._exit(_FAILED)  # the main thread cannot be interrupted in that call


def _report() -> None:
    with contextlib.suppress(OSError, ValueError):
        print(
            "Spark's JVM died during a call. Start the command again.",
            file=sys.stderr,
            flush=True,
        )
