"""The SparkSession of a command, with Delta."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tubeclient_cli.common.spark_log import SparkLog

__all__ = ["REDACTION_REGEX", "check_delta", "check_spark", "end_session", "has_ended", "hush_py4j", "make_session"]

REDACTION_REGEX = "(?i)secret|password|passwd|token|access.?key|credential|storageoption"
"""Options and settings with matching names are hidden in plans and in the UI. Spark's own default shows each
`storageOption.*` that is not called secret, token or password."""

_POLL_SECONDS = 0.1
_LEAST_SPARK = 4

_CONFS = {
    "spark.redaction.regex": REDACTION_REGEX,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A stop that hangs in the query's thread must not hang the job.
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # At WARN Spark logs each batch that is slower than the trigger, and a stack trace at each stop.
    "spark.log.level": "ERROR",
}

_LOCAL_CONFS = {
    # The executors are in the driver's process, so nobody else connects to it.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # By default Delta computes a table's state in 50 tasks. That wastes seconds on a small machine.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def make_session(
    app_name: str, master: str | None, confs: Mapping[str, str], log: SparkLog | None = None
) -> SparkSession:
    """Start a session on `master` (None: all cores of this machine), or use spark-submit's.

    `confs` override the defaults. Under spark-submit, spark-submit sets master and packages, as
    conf/spark-defaults.conf does. With `log` the output of a new JVM goes there. Raises ConfigurationError if Spark is
    too old or lacks Delta's jars, MissingPackage.
    """
    with brought_by("spark"):
        import pyspark
        from pyspark.sql import SparkSession

    check_spark(pyspark.__version__)

    # By default executors run "python3" from PATH, which may lack this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        with brought_by("delta"):
            from delta import configure_spark_with_delta_pip

        master = master or "local[*]"
        builder = builder.master(master)
        for name, value in {**_CONFS, **(_LOCAL_CONFS if master.startswith("local") else {})}.items():
            builder = builder.config(name, value)
        builder = configure_spark_with_delta_pip(builder)
    for name, value in confs.items():
        builder = builder.config(name, value)
    if not submitted:
        _start_jvm(builder, log)
    spark = builder.getOrCreate()
    check_delta(spark)
    return spark


def check_spark(version: str) -> None:
    """Raise ConfigurationError if a Spark of this version has no Python data sources."""
    if int(version.partition(".")[0]) < _LEAST_SPARK:
        raise ConfigurationError(
            f"this Python has pyspark {version}, and Python data sources need Spark {_LEAST_SPARK}. Install pyspark 4.2"
            " here, and run it on a cluster with the same version",
            condition="NEEDS_NEWER_SPARK",
        )


def check_delta(spark: SparkSession) -> None:
    """Raise ConfigurationError if the session has no classes of Delta, and end it."""
    from py4j.java_gateway import JavaPackage

    jvm: Any = spark._jvm
    # Py4J takes a name that is no class for a package.
    if isinstance(jvm.io.delta.tables.DeltaTable, JavaPackage):
        end_session(spark)
        raise ConfigurationError(
            "Spark runs without Delta's jars. With spark-submit give --properties-file conf/spark-defaults.conf, or "
            "the spark.jars.packages that it has; or name copies of the jars with --conf spark.jars=PATH,...",
            condition="JARS_NOT_FOUND",
        )


def _start_jvm(builder: SparkSession.Builder, log: SparkLog | None) -> None:
    """Start Spark's JVM in a session of its own, unless one runs already.

    Terminals, `timeout` and many service managers signal the whole process group. Then only this process gets the
    signal; it finishes the running batch and ends Spark. A JVM that gets the signal ends at once, during the batch. The
    JVM ends with this process in any case: it reads from a pipe that this process holds open.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll([(name, str(value)) for name, value in builder._options.items()])
        output = {} if log is None else {"stdout": log, "stderr": log}
        gateway = launch_gateway(conf, {"start_new_session": True, **output})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def has_ended(spark: SparkSession, within_s: float) -> bool:
    """Whether another process ended Spark, or does so within `within_s` seconds: its JVM is gone or shutting down."""
    deadline = time.monotonic() + within_s
    while not _is_stopped(spark):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def end_session(spark: SparkSession) -> None:
    """Stop Spark, unless it has ended already."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(Py4JError, OSError):
        if not _is_stopped(spark):
            spark.stop()


def hush_py4j(while_set: threading.Event) -> None:
    """Once this event is set, drop Py4J's log lines about calls that the JVM's end cut short.

    Py4J logs each with all its tracebacks, even from Python's garbage collector. Calls that matter fail the query
    anyway.
    """

    def heard(record: logging.LogRecord) -> bool:
        return not (while_set.is_set() and Path(record.pathname).parent.name == "py4j")

    for name in (None, "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(heard)


def _is_stopped(spark: SparkSession) -> bool:
    from py4j.protocol import Py4JError

    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True
