"""A job's events for programs: one JSON object on each line of standard output."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from tubeclient_cli.common.terminal import print_json
from tubeclient_ingest.progress import Events

if TYPE_CHECKING:
    from types import TracebackType

    from tubeclient_ingest.progress import IngestSummary, Round

__all__ = ["JsonEvents", "error_event"]


class JsonEvents(Events):
    """Has the methods of `Display`. Each event is one of starting, begin, round, done, stopped and error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def say(self, text: str) -> None:
        print_json({"event": "starting", "text": text})

    def begins(self, text: str) -> None:
        print_json({"event": "begin", "text": text})

    def done(self, round_: Round) -> None:
        print_json({"event": "round", **asdict(round_)})

    def stopped(self, text: str) -> None:
        print_json({"event": "stopped", "text": text})

    def failed(self, cause: str) -> None:
        print_json(error_event(cause))

    def end(self, summary: IngestSummary) -> None:
        fields = asdict(summary)
        print_json({"event": "stopped" if fields.pop("stopped") else "done", **fields})


def error_event(text: str) -> dict[str, Any]:
    """The event of a failed job; `condition` is the error's name, null if it has none."""
    named = re.match(r"\[([A-Z_]+)\] ", text)
    return {"event": "error", "condition": named[1] if named else None, "text": text}
