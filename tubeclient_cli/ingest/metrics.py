"""`tubeclient ingest --metrics-port`: the running job's figures, for Prometheus to fetch."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Self

from spark_source.progress.query_metrics import QueryMetrics
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient_cli.common.listening import check_address
from tubeclient_ingest.progress import Events

if TYPE_CHECKING:
    from types import TracebackType

    from tubeclient_ingest.progress import Round

__all__ = ["IngestMetrics"]


class IngestMetrics(Events):
    """Serves a group's figures at /metrics on host and port (0 takes a free one) until the block's end.

    ConfigurationError if the port cannot be had.
    """

    def __init__(self, consumer_group: str, host: str, port: int) -> None:
        check_address("--metrics-host", host)
        with brought_by("metrics"):
            from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

        registry = CollectorRegistry()
        metrics = QueryMetrics(registry)
        ProcessCollector(registry=registry)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it must be from 0 to 65535"
            raise ConfigurationError(
                f"metrics cannot be served at {host}:{port}: {reason}. Give another --metrics-port or --metrics-host"
            ) from None
        self.port: int = self._server.server_port
        self._metrics = metrics
        self._query = f"ingest {consumer_group}"
        self._metrics.started(self._query, time.time())

    def done(self, round_: Round) -> None:
        ended = datetime.fromisoformat(round_.time).timestamp()
        self._metrics.batch(self._query, round_.rows, round_.seconds, ended, round_.rows_behind, round_.bad_rows)

    def looked(self, at: datetime) -> None:
        self._metrics.looked(self._query, at.timestamp())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
