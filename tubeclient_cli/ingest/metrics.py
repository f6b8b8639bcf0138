"""`tubeclient ingest --metrics-port`: the running job's figures, for Prometheus to fetch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from spark_source.progress.query_metrics import QueryBatch, QueryMetrics
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import check_address
from tubeclient_ingest.run import Event, Looked, Round

__all__ = ["serve_metrics"]


@contextmanager
def serve_metrics(consumer_group: str, host: str, port: int) -> Iterator[tuple[Callable[[Event], None], int]]:
    """Serve a group's figures at /metrics of host and port (0 takes a free one) until the block's end. Gives the
    function that counts what a run tells, and the port. ConfigurationError if the port cannot be had."""
    check_address("--metrics-host", host)
    metrics = QueryMetrics()
    from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"metrics cannot be served at {host}:{port}: {error.strerror}. Give another --metrics-port or"
            " --metrics-host"
        ) from None
    query = f"ingest {consumer_group}"
    metrics.started(query, time.time())

    def count(event: Event) -> None:
        match event:
            case Looked(at):
                metrics.looked(query, at.timestamp())
            case Round():
                ended = datetime.fromisoformat(event.time).timestamp()
                metrics.batch(query, QueryBatch(event.rows, event.seconds, ended, event.rows_behind, event.bad_rows))

    try:
        yield count, server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
