"""A run's events to OpenLineage, sent beside its rounds by OpenLineage's own client. Its server stops and delays
nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from offsets_store.errors import scrub
from spark_source.options.given import OPTIONS
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient.printable import printable
from tubeclient_ingest.run import Event, Ranges, Round
from tubeclient_ingest.settings.ingest_settings import IngestSettings

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent
    from pyspark.sql import SparkSession

__all__ = ["Lineage", "open_client", "reported"]

_log = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 60.0
"""Between two events of a run that goes on."""
_LAST_SECONDS: Final = 5.0
"""How long the end of a run waits for what is not sent yet."""


def open_client() -> OpenLineageClient:
    """The client, as its users configure it. MissingPackage; ConfigurationError: the configuration is wrong."""
    with brought_by("lineage"):
        from openlineage.client import OpenLineageClient
    try:
        return OpenLineageClient()
    except Exception as error:
        raise ConfigurationError(
            f"OpenLineage's client cannot be created: {printable(scrub(str(error), {}))}. Correct openlineage.yml, "
            "or the variables OPENLINEAGE_... of the environment"
        ) from None


@contextmanager
def reported(spark: SparkSession, settings: IngestSettings, stop: threading.Event) -> Iterator[Lineage]:
    """Within it is a run that OpenLineage hears of. One that is stopped is complete if its round was."""
    lineage = Lineage(spark, settings)
    try:
        yield lineage
    except BaseException as error:
        lineage.end("FAIL" if isinstance(error, Exception) and not stop.is_set() else "ABORT", error)
        raise
    lineage.end("COMPLETE")


class Lineage:
    """Of one run, which begins now. A thread sends: of each kind of event the newest waits for it."""

    def __init__(self, spark: SparkSession, settings: IngestSettings) -> None:
        self._client, self._settings = open_client(), settings
        from openlineage.client.uuid import generate_new_uuid

        from tubeclient_ingest.lineage_events import RunLineage, catalog_namespace

        catalog = None
        with suppress(Exception):  # some runtimes refuse to say
            catalog = catalog_namespace(lambda name: spark.conf.get(name, None))
        self._run = RunLineage(settings, str(generate_new_uuid()), catalog)
        self.wrote = self._run.wrote
        """Gets each commit of a table."""
        self._waiting: dict[object, RunEvent] = {}
        self._changed, self._ends, self._has_failed = threading.Event(), False, False
        name = f"lineage of {settings.consumer_group}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        self._send("START")

    def take(self, event: Event) -> None:
        """What the run tells."""
        match event:
            case Ranges(start, end):
                self._run.read(start, end)
            case Round() if time.monotonic() - self._sent_at >= _EVERY_SECONDS:
                self._send("RUNNING")

    def end(self, state: str, error: BaseException | None = None) -> None:
        """The last event; waits some seconds at most."""
        self._send(state, None if error is None else self._shown(error))
        self._ends = True
        self._changed.set()
        self._thread.join(_LAST_SECONDS)
        if self._thread.is_alive():
            self._warn(f"it did not answer within {_LAST_SECONDS:g} s of the run's end")

    def _send(self, state: str, error: str | None = None) -> None:
        self._sent_at = time.monotonic()
        self._waiting[state] = self._run.event(state, datetime.now(UTC), error)
        self._changed.set()

    def _work(self) -> None:
        while self._waiting or not self._ends:
            self._changed.wait()
            self._changed.clear()
            for state in [*self._waiting]:
                try:
                    self._client.emit(self._waiting.pop(state))
                except Exception as error:
                    self._warn(self._shown(error))
        with suppress(Exception):
            self._client.close(_LAST_SECONDS)

    def _shown(self, error: BaseException) -> str:
        """An error in one line, without secrets."""
        how = self._settings
        secret = [option for option in OPTIONS if option.secret]
        own = {
            name: text for name, text in how.source_options.items() if any(option.matches(name) for option in secret)
        }
        text = error_text(error) or type(error).__name__
        return printable(scrub(text, {**own, **how.storage_options, **how.manager_options}))

    def _warn(self, reason: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.warning("OpenLineage does not accept the run's events; the run continues without it: %s", reason)
