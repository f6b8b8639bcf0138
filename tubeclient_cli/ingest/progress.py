"""A job's report about each batch, and a file of these reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spark_source.progress.query_metrics import rows_behind_of

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["BatchEvent", "ProgressFile"]


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """One completed batch."""

    time: str
    """When it completed: ISO 8601, UTC."""
    batch_id: int
    rows: int
    total_rows: int
    """Of this run, including this batch."""
    seconds: float
    """From the batch's planning to its last commit."""
    rows_per_second: float
    rows_behind: int | None
    """Upper bound of the rows left to read; exact if all partitions of each store have the same offset. None for a
    batch that an earlier run planned."""
    bad_rows: int = 0
    """How many of `rows` are bad records."""
    total_bad_rows: int = 0
    """Of this run, including this batch."""

    @classmethod
    def of(cls, progress: Mapping[str, Any], before: BatchEvent | None, bad_rows: int) -> BatchEvent:
        """From the JSON of Spark's StreamingQueryProgress; `before` is the run's last event."""
        source = progress["sources"][0]
        seconds = int(progress["batchDuration"]) / 1000
        rows = int(progress["numInputRows"])
        began = datetime.fromisoformat(progress["timestamp"])
        return cls(
            time=(began + timedelta(seconds=seconds)).isoformat(timespec="milliseconds"),
            batch_id=int(progress["batchId"]),
            rows=rows,
            total_rows=(before.total_rows if before else 0) + rows,
            seconds=seconds,
            rows_per_second=round(rows / seconds, 1) if seconds else 0.0,
            rows_behind=rows_behind_of(source),
            bad_rows=bad_rows,
            total_bad_rows=(before.total_bad_rows if before else 0) + bad_rows,
        )


class ProgressFile:
    """Appends events to a file, one JSON object per line. `write` flushes each line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def write(self, event: BatchEvent) -> None:
        self._file.write(json.dumps(asdict(event)) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
