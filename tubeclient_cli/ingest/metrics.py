"""`tubeclient ingest --metrics-port`: the running job's figures, for Prometheus to fetch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

from tubeclient.counts import Metric
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient_cli.common.cluster import check_address
from tubeclient_ingest.run import Event, Idle, Round

_BATCH_SECONDS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)


def _metric(name: str, kind: Literal["counter", "gauge", "histogram"], text: str) -> Metric:
    return Metric(f"tubeclient_query_{name}", kind, ("query",), text)


_ROWS: Final = _metric("rows_total", "counter", "Rows that the query has read from TubeMQ, in complete batches.")
_BATCHES: Final = _metric("batches_total", "counter", "Complete batches that read rows.")
_BAD: Final = _metric(
    "bad_records_total",
    "counter",
    "Bad records among these rows, which went to the table of --bad-records.",
)
_SECONDS: Final = _metric("batch_duration_seconds", "histogram", "Seconds from a batch's planning to its last commit.")
_LAST_BATCH: Final = _metric(
    "last_batch_timestamp_seconds",
    "gauge",
    "When the last batch was complete, in seconds since 1970. Before the first batch: when the job started.",
)
_LAST_TRIGGER: Final = _metric(
    "last_trigger_timestamp_seconds",
    "gauge",
    "When the job last checked for new rows, in seconds since 1970. Before the first check: when the job started.",
)
_BEHIND: Final = _metric("rows_behind", "gauge", "Upper bound of rows left to read after the last batch.")
QUERY_METRICS: Final = (_ROWS, _BATCHES, _BAD, _SECONDS, _LAST_BATCH, _LAST_TRIGGER, _BEHIND)
"""All metrics of the job; its rounds are batches of a query."""


@contextmanager
def serve_metrics(consumer_group: str, host: str, port: int) -> Iterator[tuple[Callable[[Event], None], int]]:
    """Serve a group's figures at /metrics of host and port (0 takes a free one) until the block's end. Gives the
    function that counts what a run tells, and the port. ConfigurationError if the port cannot be had."""
    check_address("--metrics-host", host)
    with brought_by("metrics"):
        import prometheus_client as client

    registry = client.CollectorRegistry()
    kinds: dict[str, Any] = {
        "counter": client.Counter,
        "gauge": client.Gauge,
        "histogram": partial(client.Histogram, buckets=_BATCH_SECONDS),
    }
    query = f"ingest {consumer_group}"
    metrics = {
        metric: kinds[metric.kind](metric.name, metric.help, metric.labels, registry=registry).labels(query)
        for metric in QUERY_METRICS
        if metric is not _BEHIND
    }
    behind = client.Gauge(_BEHIND.name, _BEHIND.help, _BEHIND.labels, registry=registry)
    client.ProcessCollector(registry=registry)
    try:
        server, thread = client.start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"metrics cannot be served at {host}:{port}: {error.strerror}. Use another --metrics-port or --metrics-host"
        ) from None
    last_trigger = time.time()
    for metric in (_LAST_BATCH, _LAST_TRIGGER):  # so that a job that does nothing at all shows
        metrics[metric].set(last_trigger)

    def observe(at: float) -> None:
        nonlocal last_trigger
        last_trigger = max(at, last_trigger)
        metrics[_LAST_TRIGGER].set(last_trigger)

    def count(event: Event) -> None:
        match event:
            case Idle(at):
                observe(at.timestamp())
            case Round():
                ended = datetime.fromisoformat(event.time).timestamp()
                for metric, more in ((_ROWS, event.rows + event.bad_rows), (_BATCHES, 1), (_BAD, event.bad_rows)):
                    metrics[metric].inc(more)
                metrics[_SECONDS].observe(event.seconds)
                metrics[_LAST_BATCH].set(ended)
                if event.rows_behind is None:
                    behind.clear()
                else:
                    behind.labels(query).set(event.rows_behind)
                observe(ended)

    try:
        yield count, server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
