"""`tubeclient ingest --metrics-port`: the running job's figures, for Prometheus to fetch."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from tubeclient.counts import Metric
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient_cli.common.listening import check_address
from tubeclient_ingest.progress import Events

if TYPE_CHECKING:
    from types import TracebackType

    from tubeclient_ingest.progress import Round

__all__ = ["QUERY_METRICS", "IngestMetrics"]


_BATCH_SECONDS: Final = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)


def _metric(name: str, kind: Literal["counter", "gauge", "histogram"], text: str) -> Metric:
    return Metric(f"tubeclient_query_{name}", kind, ("query",), text)


_ROWS: Final = _metric("rows_total", "counter", "Rows that the query has read from TubeMQ, in complete batches.")
_BATCHES: Final = _metric("batches_total", "counter", "Complete batches that read rows.")
_BAD: Final = _metric(
    "bad_records_total",
    "counter",
    "Bad records among these rows, of `tubeclient ingest`: those that --bad-records took.",
)
_SECONDS: Final = _metric("batch_duration_seconds", "histogram", "Seconds from a batch's planning to its last commit.")
_LAST_BATCH: Final = _metric(
    "last_batch_timestamp_seconds",
    "gauge",
    "When the last batch was complete, since 1970. Of `tubeclient ingest` before its first batch: when it started.",
)
_LAST_TRIGGER: Final = _metric(
    "last_trigger_timestamp_seconds",
    "gauge",
    "When Spark last looked for new rows, whether there were any or not, since 1970. Of `tubeclient ingest` "
    "before its first look: when it started.",
)
_BEHIND: Final = _metric("rows_behind", "gauge", "The most rows that were left to read after the last batch.")
QUERY_METRICS: Final = (_ROWS, _BATCHES, _BAD, _SECONDS, _LAST_BATCH, _LAST_TRIGGER, _BEHIND)
"""All metrics of the job; its rounds are batches of a query."""


class IngestMetrics(Events):
    """Serves a group's figures at /metrics on host and port (0 takes a free one) until the block's end.

    ConfigurationError if the port cannot be had.
    """

    def __init__(self, consumer_group: str, host: str, port: int) -> None:
        check_address("--metrics-host", host)
        with brought_by("metrics"):
            import prometheus_client as client

        registry = client.CollectorRegistry()
        kinds: dict[str, Any] = {
            "counter": client.Counter,
            "gauge": client.Gauge,
            "histogram": partial(client.Histogram, buckets=_BATCH_SECONDS),
        }
        self._metrics = {
            one: kinds[one.kind](one.name, one.help, one.labels, registry=registry).labels(f"ingest {consumer_group}")
            for one in QUERY_METRICS
            if one is not _BEHIND
        }
        self._behind = client.Gauge(_BEHIND.name, _BEHIND.help, _BEHIND.labels, registry=registry)
        client.ProcessCollector(registry=registry)
        try:
            self._server, self._thread = client.start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it must be from 0 to 65535"
            raise ConfigurationError(
                f"metrics cannot be served at {host}:{port}: {reason}. Give another --metrics-port or --metrics-host"
            ) from None
        self.port: int = self._server.server_port
        self._query = f"ingest {consumer_group}"
        self._last_trigger = time.time()
        for metric in (_LAST_BATCH, _LAST_TRIGGER):  # so that a job that does nothing at all shows
            self._metrics[metric].set(self._last_trigger)

    def done(self, round_: Round) -> None:
        ended = datetime.fromisoformat(round_.time).timestamp()
        for metric, more in ((_ROWS, round_.rows), (_BATCHES, 1), (_BAD, round_.bad_rows)):
            self._metrics[metric].inc(more)
        self._metrics[_SECONDS].observe(round_.seconds)
        self._metrics[_LAST_BATCH].set(ended)
        if round_.rows_behind is None:
            self._behind.clear()
        else:
            self._behind.labels(self._query).set(round_.rows_behind)
        self._look(ended)

    def looked(self, at: datetime) -> None:
        self._look(at.timestamp())

    def _look(self, at: float) -> None:
        self._last_trigger = max(at, self._last_trigger)
        self._metrics[_LAST_TRIGGER].set(self._last_trigger)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
