"""Spark's asynchronous progress tracking: batches go on while Spark writes its logs, and most of them are in no log.

Spark has it for sinks that keep nothing of a batch's number. What a source is told then: the next batch is asked for
once the sink has the one before, as ever; batches are confirmed later, and only those that are in the logs.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.exactly_once.looking import kept
from tests.exactly_once.processes import Child, marked, none_left, send_signal
from tests.spark_source.feed import Feed
from tests.spark_source.queries import ends_of
from tests.waiting import wait_for
from tubeclient.keys import INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

END_SECONDS = 120
"""For a driver's start on a machine that is busy."""
ROWS = 10


class Job:
    """The query with its checkpoint, its offsets table, and what it wrote, in all its runs."""

    def __init__(self, feed: Feed, folder: Path) -> None:
        self.feed = feed
        self.folder = folder
        self.options = feed.options(
            startingOffsets="earliest",
            maxOffsetsPerTrigger=ROWS,
            offsetsTable=folder / "offsets",
        )

    @contextmanager
    def run(self) -> Iterator[tuple[Child, str]]:
        """A run that ends with the block; and the mark of its processes."""
        mark = uuid.uuid4().hex
        module, checkpoint = "tests.spark_source.console_query", str(self.folder / "checkpoint")
        command = [sys.executable, "-m", module, json.dumps(self.options), checkpoint]
        with none_left(mark):
            child = Child("console_query", command, self.folder / f"{mark}.log", mark)
            try:
                yield child, mark
            finally:
                child.kill()

    def written(self) -> list[bytes]:
        """The rows on the console, of all runs."""
        logs = (path.read_text() for path in self.folder.glob("*.log"))
        return [row.encode() for text in logs for row in re.findall(r"^\|(message-\d+) *\|$", text, re.MULTILINE)]

    def before(self, positions: dict[str, Any]) -> list[bytes]:
        """The messages before these positions: each of the topic's partitions has a store of its own."""
        ids = self.feed.partition_ids
        of = {f"1:{self.feed.topic}:{number}": self.feed.sent[place :: len(ids)] for place, number in enumerate(ids)}
        return sorted(body for key, at in positions.items() for body in of[key][: at // INDEX_ENTRY_BYTES])

    def table(self) -> list[bytes]:
        """The messages before the offsets table's positions."""
        return self.before(dict(kept(self.folder / "offsets")[0]))

    def log(self) -> list[bytes]:
        """The messages before the end of the last batch that is in Spark's log."""
        newest = max((self.folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return self.before(ends_of(newest.read_text()))


def test_kill_between_logs_and_sink(plain_feed: Feed, tmp_path: Path) -> None:
    """The table is ahead of Spark's logs but not of the sink after a kill."""
    job = Job(plain_feed, tmp_path)
    plain_feed.send(500 * ROWS)  # more than it has time for
    with job.run() as (child, mark):
        wait_for(lambda: len(job.written()) >= 5 * ROWS or not child.running, "some batches", seconds=END_SECONDS)
        assert child.running, child.tail()
        for process in marked(mark):
            if "org.apache.spark.deploy.SparkSubmit" in process.command:
                send_signal(process, signal.SIGKILL)
        child.kill()
        wait_for(lambda: not marked(mark), "JVM and planner to end")
    table, written = job.table(), job.written()
    assert set(job.log()) < set(table) <= set(written)
    assert len(set(written)) - len(table) <= ROWS
    assert len(set(written)) < len(plain_feed.sent)
    # The next start goes on from Spark's logs, so what is past them comes again, and nothing is left out.
    plain_feed.tube.restart_master()  # it forgets the nodes that were not given back
    job.options["maxOffsetsPerTrigger"] = str(500 * ROWS)
    with job.run() as (child, _):
        wait_for(
            lambda: job.table() == sorted(plain_feed.sent) or not child.running,
            "the rest, and the table",
            seconds=END_SECONDS,
        )
        assert child.running, child.tail()
    assert set(job.written()) == set(plain_feed.sent)
    assert len(job.written()) > len(plain_feed.sent)
