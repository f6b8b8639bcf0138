"""Running streaming queries in tests: always ended, always with a time limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.waiting import wait_for

WAIT_SECONDS = 60


def stream(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return spark.readStream.format("tubeclient").options(**options).load()


def batch(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("tubeclient").options(**options).load()


@contextlib.contextmanager
def running(
    frame: DataFrame,
    checkpoint: Path,
    each_batch: Callable[[DataFrame, int], None],
    *,
    name: str | None = None,
    **trigger: Any,
) -> Iterator[StreamingQuery]:
    """A query that hands its batches to `each_batch`; stopped at the end."""
    writer = frame.writeStream.foreachBatch(each_batch).option("checkpointLocation", str(checkpoint))
    writer = writer if name is None else writer.queryName(name)
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield query
    finally:
        query.stop()


def run_available(
    frame: DataFrame, checkpoint: Path, each_batch: Callable[[DataFrame, int], None], *, name: str | None = None
) -> list[Any]:
    """Read what there is and return the progress of each batch. Raises what ended the query early."""
    with running(frame, checkpoint, each_batch, name=name, availableNow=True) as query:
        assert query.awaitTermination(WAIT_SECONDS), "the query did not end"
        error = query.exception()
        if error is not None:
            raise error
        return [progress for progress in query.recentProgress if progress.numInputRows or progress.batchId == 0]


class Batches:
    """Collects the bodies of each batch, the last run of it, as a sink that overwrites by batch id does."""

    def __init__(self) -> None:
        self.bodies: dict[int, list[bytes]] = {}
        self.runs = 0

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.runs += 1
        self.bodies[batch_id] = sorted(bytes(row.value) for row in frame.select("value").collect())

    @property
    def all(self) -> list[bytes]:
        return sorted(body for bodies in self.bodies.values() for body in bodies)

    @property
    def sizes(self) -> list[int]:
        return [len(self.bodies[number]) for number in sorted(self.bodies)]


def wait_for_rows(query: StreamingQuery, sink: Batches, count: int, what: str, *, seconds: float = 30.0) -> None:
    """Return as soon as the sink has so many rows. Raises what ended the query early."""

    def there() -> bool:
        error = query.exception()
        if error is not None:
            raise error
        return len(sink.all) == count

    wait_for(there, what, seconds=seconds)
