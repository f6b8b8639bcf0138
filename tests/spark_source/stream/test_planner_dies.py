"""The process beside the driver that plans a query's batches dies: what users see, and that a new start goes on."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_source.stream.planner_process import PLANNER_MODULE
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream, wait_for_rows
from tests.waiting import wait_for
from tubeclient_ingest.advice import short_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def planners() -> list[int]:
    """Process ids of the planners that this process's own Spark has started."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if PLANNER_MODULE in (folder / "cmdline").read_bytes().decode(errors="replace").split("\0"):
                found.append(int(folder.name))

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [pid for pid in found if is_ours(pid)]


class DeadlyBatches(Batches):
    """In the second batch, once its rows are there, the planner is killed; the batch itself completes."""

    killed = False

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        super().__call__(frame, batch_id)
        if batch_id == 1 and not self.killed:
            self.killed = True
            kill_planner()


def kill_planner() -> None:
    # Those of queries that were stopped may take a moment to end.
    wait_for(lambda: len(planners()) == 1, "the query's planner to be the only one")
    (planner,) = planners()
    os.kill(planner, signal.SIGKILL)


@pytest.mark.parametrize("idle", [True, False])
def test_a_query_whose_planner_is_killed_ends_and_its_next_start_goes_on(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, idle: bool
) -> None:
    feed.send(100)
    sink = Batches() if idle else DeadlyBatches()
    frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=40))
    with running(frame, tmp_path / "checkpoint", sink) as query:
        if idle:
            wait_for_rows(query, sink, 100, "the first messages")
            kill_planner()
        wait_for(query.exception, "the query to end", seconds=60)
        error = query.exception()
    # docs/troubleshooting.md quotes both. The second comes if the planner died while Spark asked it for the next batch.
    assert re.match(
        r"\[STREAM_FAILED\] .* terminated with exception:  SQLSTATE: XXKST \(no cause message\)|Connection reset$",
        str(error).split("\n")[0],
    )
    assert "Usually the source's process beside the driver was killed" in short_cause(str(error))
    done = dict(sink.bodies)
    feed.tube.restart_master()  # it forgets the nodes that were not given back; else their lease has to end
    feed.send(50)
    run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.all == feed.sent
    # What had been read was not read into another batch.
    assert {number: sink.bodies[number] for number in done} == done
