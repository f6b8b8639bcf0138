"""`tubeclient ingest --metrics-port`: the running job's figures, for Prometheus to fetch."""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self

from spark_source.progress.query_counts import QueryBatch
from spark_source.progress.query_metrics import QueryMetrics
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.listening import check_address
from tubeclient_cli.ingest.metrics_server import MetricsServer
from tubeclient_ingest.settings import IngestSettings

if TYPE_CHECKING:
    from types import TracebackType

    from tubeclient_ingest.progress import Round

__all__ = ["IngestMetrics"]

_log = logging.getLogger(__name__)

_TABLE_SECONDS: Final = 30.0
"""How often the offsets table is looked at."""
_JOIN_SECONDS: Final = 5.0


class IngestMetrics:
    """Serves /metrics on host and port from the constructor on, until `close`.

    ConfigurationError if the port cannot be had. Numbers come from the job's own reports; a thread looks at the
    offsets table, if there is one.
    """

    def __init__(self, settings: IngestSettings, host: str, port: int) -> None:
        check_address("--metrics-host", host)
        metrics = QueryMetrics()
        from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

        registry = CollectorRegistry()
        registry.register(metrics)
        ProcessCollector(registry=registry)
        try:
            self._server = MetricsServer(host, port, make_wsgi_app(registry))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it must be from 0 to 65535"
            raise ConfigurationError(
                f"metrics cannot be served at {host}:{port}: {reason}. Give another --metrics-port or --metrics-host"
            ) from None
        self.port: int = self._server.server_port
        self._serving = threading.Thread(target=self._server.serve_forever, name="ingest-metrics-http", daemon=True)
        self._serving.start()
        self._counts = metrics.counts
        self._settings = settings
        self._query = f"ingest {settings.consumer_group}"
        self._counts.started(self._query, time.time(), has_table=settings.offsets_table is not None)
        self._end = threading.Event()
        self._looking = threading.Thread(target=self._look, name="ingest-metrics", daemon=True)
        if settings.offsets_table is not None:
            self._looking.start()

    def round_done(self, event: Round) -> None:
        """A round is complete."""
        ended = datetime.fromisoformat(event.time).timestamp()
        batch = QueryBatch(event.rows, event.seconds, ended, event.rows_behind, event.bad_rows)
        self._counts.batch(self._query, batch)

    def looked(self, at: datetime) -> None:
        """The job looked for new messages and found none."""
        self._counts.looked(self._query, at.timestamp())

    def close(self) -> None:
        """Serve no more."""
        self._end.set()
        self._server.shutdown()
        self._server.server_close()
        self._serving.join(_JOIN_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _look(self) -> None:
        from offsets_store import GroupKey, OffsetsTable
        from offsets_store.errors import scrub

        assert self._settings.offsets_table is not None
        storage = dict(self._settings.storage_options)
        table = OffsetsTable(self._settings.offsets_table, storage)
        key = GroupKey(self._settings.consumer_group, self._settings.topics)
        while not self._end.is_set():
            try:
                found = table.latest(key)
                if found is not None:
                    self._counts.table_written(self._query, found.updated_at.timestamp())
            except Exception as error:  # Whatever it is, the next look may be well, and nobody else would begin it.
                why = scrub(str(error) or type(error).__name__, storage)
                _log.warning("metrics show an older state of the offsets table: %s", why)
            self._end.wait(_TABLE_SECONDS)
