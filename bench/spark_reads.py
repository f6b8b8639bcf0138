"""Spark's side: one session with Delta and Kafka's source, and timed reads of whole topics in it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.kafka_jars import session_confs
from tubeclient import ClientSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MASTER", "RowsError", "bench_session", "kafka_options", "read_rows", "timed_read", "tube_options"]

MASTER: Final = "local[2]"
_SCAN: Final = "BatchScan"
_ROWS: Final = "number of output rows"
_EVENTS_MS: Final = 10_000


class RowsError(RuntimeError):
    """A read gave another number of rows than the topic has messages."""


def bench_session(folder: Path) -> SparkSession:
    """The one session of a run: two tasks at once, 2 GB of heap; its own files are below `folder`."""
    from tubeclient_cli.common.session import make_session

    confs = {
        "spark.driver.memory": "2g",
        **session_confs(),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
    }
    return make_session("bench", MASTER, confs)


def tube_options(settings: ClientSettings, topic: str, group: str = "bench") -> dict[str, str]:
    """The options of a read of the whole topic. All others have their defaults."""
    return {
        "masterServers": ",".join(settings.master_servers),
        "masterWebPort": str(settings.master_web_port),
        "consumerGroup": group,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


def kafka_options(bootstrap: str, topic: str, *, impatient: bool = False) -> dict[str, str]:
    """The same for Spark's Kafka source. With `impatient` brokers answer an empty fetch after 10 ms. The default is 500
    ms, which is most of the time of a small read.
    """
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return {**options, "kafka.fetch.max.wait.ms": "10"} if impatient else options


def timed_read(spark: SparkSession, source: str, options: Mapping[str, str], messages: int) -> float:
    """Seconds of a batch read into `noop`: load, planning and reading. RowsError: it has another number of rows."""
    started = time.perf_counter()
    frame = spark.read.format(source).options(**options).load()
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - started
    rows = read_rows(spark)
    if rows != messages:
        raise RowsError(f"{source} read {rows} rows of {options['subscribe']}, which has {messages}")
    return seconds


def read_rows(spark: SparkSession) -> int:
    """Rows that the scans of the last query gave, by Spark's own metrics, which cost a read nothing."""
    jvm: Any = spark._jsparkSession
    context = jvm.sparkContext()
    context.listenerBus().waitUntilEmpty(_EVENTS_MS)
    store = jvm.sharedState().statusStore()
    executions = store.executionsList()
    for number in range(executions.size() - 1, -1, -1):
        rows = _scanned(store, executions.apply(number).executionId())
        if rows is not None:
            return rows
    raise RowsError("Spark has counted no scan")


def _scanned(store: Any, execution: int) -> int | None:
    """Rows of all scans of an execution; None if it has none."""
    values = store.executionMetrics(execution)
    nodes = store.planGraph(execution).allNodes()
    rows = None
    for number in range(nodes.size()):
        node = nodes.apply(number)
        if not node.name().startswith(_SCAN):
            continue
        metrics = node.metrics()
        for one in range(metrics.size()):
            metric = metrics.apply(one)
            if metric.name() == _ROWS:
                shown = values.get(metric.accumulatorId())
                rows = (rows or 0) + (int(shown.get().replace(",", "")) if shown.isDefined() else 0)
    return rows
