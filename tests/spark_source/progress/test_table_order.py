"""A plain query with a Delta sink: its offsets table never leads the sink and trails by a batch at most."""

from __future__ import annotations

import json
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests.exactly_once.looking import kept
from tests.exactly_once.order import Positions, Seen, wrong_order
from tests.exactly_once.processes import Child, marked, none_left, send_signal
from tests.spark_source.feed import Feed
from tests.spark_source.queries import ends_of, stream
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = 20
END_SECONDS = 120
"""For a driver's start, or a query's end, on a machine that is busy."""


class Places:
    """Checkpoint, Delta table and offsets table of one query, in one folder."""

    def __init__(self, folder: Path, feed: Feed) -> None:
        self.folder = folder
        self.options = feed.options(
            startingOffsets="earliest",
            maxOffsetsPerTrigger=ROWS,
            offsetsTable=folder / "offsets",
        )

    def newest(self, log: str) -> int:
        """The newest batch in one of the checkpoint's logs; -1 for none."""
        found = (self.folder / "checkpoint" / log).glob("[0-9]*")
        return max((int(path.name) for path in found), default=-1)

    def is_complete(self, batch_id: int) -> bool:
        """Whether it is in Spark's commit log."""
        return self.newest("commits") >= batch_id

    def end_of(self, batch_id: int | None) -> Positions:
        """Where a batch ends, as Spark planned it; {} for none."""
        if batch_id is None or batch_id < 0:
            return {}
        text = (self.folder / "checkpoint" / "offsets" / str(batch_id)).read_text()
        return ends_of(text)

    def table(self) -> Positions:
        return kept(self.folder / "offsets")[0]

    def sink(self) -> Positions:
        """Delta keeps the number of the query's last batch."""
        query_id = json.loads((self.folder / "checkpoint" / "metadata").read_text())["id"]
        return self.end_of(DeltaTable(self.folder / "table").transaction_version(query_id))

    def look(self) -> Seen:
        """What is planned is read first, the sink last: later ones may only have grown."""
        due = self.end_of(self.newest("offsets") - 1)
        return Seen(due, self.table(), self.sink())

    def bodies(self) -> list[bytes]:
        return sorted(DeltaTable(self.folder / "table").to_pyarrow_table().column("value").to_pylist())

    def start(self, spark: SparkSession, **trigger: str | bool) -> StreamingQuery:
        """In the tests' own session."""
        writer = stream(spark, self.options).select("value").writeStream.format("delta").trigger(**trigger)  # type: ignore[arg-type]
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).start(str(self.folder / "table"))

    def read_all(self, spark: SparkSession) -> None:
        """Run to the end of what there is."""
        query = self.start(spark, availableNow=True)
        try:
            assert query.awaitTermination(END_SECONDS), "the query did not end"
        finally:
            query.stop()

    @contextmanager
    def in_own_process(self) -> Iterator[tuple[Child, str]]:
        """The query in another process, which ends with the block; and the mark of all that it starts."""
        mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "tests.spark_source.delta_query", json.dumps(self.options), str(self.folder)]
        with none_left(mark):
            child = Child("delta_query", command, self.folder / "query.log", mark)
            try:
                yield child, mark
            finally:
                child.kill()


@pytest.fixture
def places(tmp_path: Path, feed: Feed) -> Places:
    return Places(tmp_path, feed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_table_after_a_signal(delta_spark: SparkSession, feed: Feed, places: Places, number: signal.Signals) -> None:
    """Stopped while batches follow each other, by a signal to the driver: its JVM and the Python that started it."""
    feed.send(ROWS)
    places.read_all(delta_spark)
    feed.wait_until_free()
    feed.send(500 * ROWS)  # more than it has time for
    with places.in_own_process() as (child, mark):
        wait_for(lambda: places.newest("commits") >= 3 or not child.running, "some batches", seconds=END_SECONDS)
        assert child.running, child.tail()
        for process in marked(mark):
            if "org.apache.spark.deploy.SparkSubmit" in process.command:
                send_signal(process, number)
        child.ask_to_end() if number is signal.SIGTERM else child.kill()
        child.wait(END_SECONDS)
        wait_for(lambda: not marked(mark), "JVM and planner to end")
    stopped = places.newest("commits")
    assert 3 <= stopped < 500
    seen = places.look()
    assert wrong_order(seen) == []
    assert seen.table
    # The next start with the checkpoint: at rest nothing is left of it.
    feed.tube.restart_master()  # it forgets the nodes that were not given back; else their lease has to end
    places.options["maxOffsetsPerTrigger"] = str(500 * ROWS)
    places.read_all(delta_spark)
    assert wrong_order(places.look(), at_rest=True) == []
    assert places.bodies() == feed.sent


@pytest.mark.merge
def test_available_now_ends_with_nothing_behind(delta_spark: SparkSession, feed: Feed, places: Places) -> None:
    feed.send(3 * ROWS)
    places.read_all(delta_spark)
    seen = places.look()
    assert seen.table == seen.sink == places.end_of(2)


def test_next_start_closes_the_gap(delta_spark: SparkSession, feed: Feed, places: Places) -> None:
    """A trigger that does not come a second time leaves the table a batch behind: the bound is reached."""
    for number in range(2):
        feed.send(ROWS)
        query = places.start(delta_spark, processingTime="1 hour")
        try:
            wait_for(partial(places.is_complete, number), "the batch", seconds=END_SECONDS)
        finally:
            query.stop()
        feed.wait_until_free()
        seen = places.look()
        assert wrong_order(seen) == []
        assert (seen.table, seen.sink) == (places.end_of(number - 1), places.end_of(number))
    query = places.start(delta_spark, processingTime="1 hour")
    try:
        wait_for(lambda: places.table() == places.end_of(1), "the table to be brought up to date", seconds=END_SECONDS)
    finally:
        query.stop()
    assert places.newest("offsets") == 1, "there was no further batch"
    assert places.bodies() == feed.sent
