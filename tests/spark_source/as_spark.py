"""A planner that takes and gives offsets as Spark's checkpoint has them, so tests read as what Spark passes."""

from __future__ import annotations

from typing import Any

from spark_source.plan.read_task import ReadTask
from spark_source.stream.planner import StreamPlanner
from spark_source.stream.stream_reader import CheckpointOffsets, Json

__all__ = ["JsonPlanner"]


class JsonPlanner:
    """The methods are those of StreamPlanner."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.planner = StreamPlanner(*arguments, **named)
        self._offsets = CheckpointOffsets()

    def initial(self) -> Json:
        return self._offsets.written(self.planner.initial())

    def latest(self, start: Json, max_rows: int | None, min_rows: int | None = None) -> Json:
        begin = self._offsets.parsed(start)
        end = self.planner.latest(begin, max_rows, min_rows)
        return start if end is begin else self._offsets.written(end)

    def still_available(self, offsets: Json) -> Json:
        return self._offsets.written(self.planner.still_available(self._offsets.parsed(offsets)))

    def complete(self, end: Json) -> None:
        self.planner.complete(self._offsets.parsed(end))

    def partitions(self, start: Json, end: Json) -> list[ReadTask]:
        return self.planner.partitions(self._offsets.parsed(start), self._offsets.parsed(end))

    def is_at_end(self, start: Json, *, is_first: bool) -> bool:
        return self.planner.is_at_end(self._offsets.parsed(start), is_first=is_first)

    def reported_latest(self) -> Json | None:
        latest = self.planner.reported_latest()
        return None if latest is None else latest.to_dict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.planner, name)
