"""Sources with names, which come to a query and leave it between its runs; the checkpoint knows them by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from spark_source.session_confs import session_confs
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BY_NAME = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    # In version 1 the checkpoint has the sources by their places in the query.
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}


@pytest.fixture
def spark(delta_spark: SparkSession) -> Iterator[SparkSession]:
    with session_confs(delta_spark, BY_NAME):
        yield delta_spark


class Sources:
    """Topics, each with a name that is also its source's, and one query that reads some of them."""

    def __init__(self, spark: SparkSession, tube: EmbeddedTubeMQ, folder: Path, *names: str, **options: str) -> None:
        self._spark = spark
        self._options = options
        self.checkpoint = folder / "checkpoint"
        self.rows: list[bytes] = []
        self.feeds = {}
        for name in names:
            feed = Feed.create(tube, f"{name}_{folder.name}", stores=2, partitions=1)
            feed.label = name
            self.feeds[name] = feed

    def run(self, *names: str) -> int:
        """More comes to each topic; read what there is in those of `names`, in this order. Returns how many rows."""
        for feed in self.feeds.values():
            feed.send(10)
        frame, *others = map(self._frame, names)
        for other in others:
            frame = frame.unionByName(other)
        sink = Batches()
        run_available(frame, self.checkpoint, sink)
        for name in names:
            self.feeds[name].wait_until_free()
        self.rows += sink.all
        return len(sink.all)

    def _frame(self, name: str) -> DataFrame:
        options = {**self.feeds[name].options(), **self._options}
        return self._spark.readStream.format("tubeclient").options(**options).name(name).load()


@pytest.mark.merge
def test_sources_come_and_go_and_come_back(spark: SparkSession, tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    sources = Sources(spark, tube, tmp_path, "clicks", "views", "orders", startingOffsets="earliest")
    assert sources.run("clicks", "views") == 20
    assert sources.run("orders", "clicks", "views") == 10 + 10 + 20  # the new one from its earliest
    assert sources.run("views", "orders") == 20
    assert sources.run("views", "clicks", "orders") == 10 + 20 + 10  # it goes on where it was taken out
    assert sorted(sources.rows) == sorted(body for feed in sources.feeds.values() for body in feed.sent)


def test_forgotten_source_resumes_from_the_table(spark: SparkSession, tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """Spark finds a source's offsets in the batches that it keeps, which are the last hundred. On the way, what Spark
    4.2.0 cannot do with such a checkpoint: start again after a kill in its second batch, whatever the sources are."""
    more = {"startingOffsets": "group:earliest", "offsetsTable": str(tmp_path / "offsets")}
    sources = Sources(spark, tube, tmp_path, "clicks", "views", **more)
    assert sources.run("clicks", "views") == 20
    assert sources.run("views") == 10
    with killed_in(sources.checkpoint, 1), pytest.raises(Exception, match=r"None\.get"):
        sources.run("views")
    assert sources.run("views") == 20
    with killed_in(sources.checkpoint, 2):
        assert sources.run("views") == 20 + 10  # again, and what is new
    sources.rows = sources.rows[:50] + sources.rows[-10:]
    for log in ("offsets", "commits"):  # as Spark does it
        (sources.checkpoint / log / "0").unlink()
    assert sources.run("views", "clicks") == 10 + 50
    assert sorted(sources.rows) == sorted(body for feed in sources.feeds.values() for body in feed.sent)


@contextmanager
def killed_in(checkpoint: Path, number: int) -> Iterator[None]:
    """Within it the batch is not in Spark's commit log, unless it is run again."""
    commits = checkpoint / "commits"
    files = [commits / f"{number}", commits / f".{number}.crc"]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    yield
    if not files[0].exists():
        for path, content in zip(files, before, strict=True):
            path.write_bytes(content)
