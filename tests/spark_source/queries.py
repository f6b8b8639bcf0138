"""Running streaming queries in tests: always ended, always with a time limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_source.offsets.offsets import Offsets
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


def ends_of(text: str) -> dict[str, int]:
    """Where the batch ends, by partition key. The entry has its version, a line of metadata, and a line for the source,
    which in version 2 begins with the source's name."""
    version, _, source = text.strip().split("\n")
    offsets = Offsets.parse(source if version == "v1" else source.partition(":")[2])
    return {str(key): at for key, at in offsets.items()}


class Read(NamedTuple):
    """A row, and which task gave it."""

    task: int
    partition: int
    body: bytes


def reads_of(frame: DataFrame) -> list[Read]:
    """All rows, those of a task in the order in which it gave them."""
    from pyspark.sql.functions import spark_partition_id

    rows = frame.select(spark_partition_id().alias("task"), "partition", "value").collect()
    return [Read(row.task, row.partition, bytes(row.value)) for row in rows]


def bodies_of(reads: list[Read]) -> list[bytes]:
    return sorted(read.body for read in reads)


def assert_in_order(reads: list[Read]) -> None:
    """Messages are numbered as they lie in their store, so those of a partition rise within a task."""
    last: dict[tuple[int, int], bytes] = {}
    for read in reads:
        assert last.get((read.task, read.partition), b"") < read.body
        last[read.task, read.partition] = read.body
