"""What a running job tells, passed on to whoever watches: a terminal or a program, a file, Prometheus."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from tubeclient_ingest.run import Events

if TYPE_CHECKING:
    from tubeclient_cli.ingest.display import Display
    from tubeclient_cli.ingest.json_events import JsonEvents
    from tubeclient_cli.ingest.metrics import IngestMetrics
    from tubeclient_ingest.progress import ProgressFile, Round

__all__ = ["Shown"]


class Shown(Events):
    """Events of one run."""

    def __init__(self, display: Display | JsonEvents, metrics: IngestMetrics | None) -> None:
        self._display = display
        self._metrics = metrics
        self.file: ProgressFile | None = None
        self.reading = False
        """Whether the first round has begun."""

    def begins(self, text: str) -> None:
        self._display.start(text)

    def reads(self) -> None:
        self.reading = True
        self._display.first()

    def done(self, round_: Round) -> None:
        self._display.show(round_)
        if self.file is not None:
            self.file.write(round_)
        if self._metrics is not None:
            self._metrics.round_done(round_)

    def looked(self, at: datetime) -> None:
        if self._metrics is not None:
            self._metrics.looked(at)
