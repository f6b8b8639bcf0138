"""A broker of Apache's that is killed loses what it had in memory: the job says so, and goes on if it is told to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.apache.server import ApacheTubeMQ
from tests.exactly_once.job import Job
from tests.exactly_once.judge import judge
from tests.exactly_once.looking import held_by_brokers, in_table, row_count
from tests.exactly_once.run import TOPIC, job_of, scenery
from tests.exactly_once.writers import Writers
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apache, pytest.mark.timeout(600)]

ENOUGH = 200
"""Messages, each time that something is written."""
ATTEMPTS = 4
"""A broker writes its memory down every 20 s; one that has just done so loses nothing."""
END_SECONDS = 120.0


def write_and_have_read(writers: Writers, job: Job) -> None:
    """Some more messages, which are in the table when this returns."""
    rows, before = row_count(job.table), len(writers.acknowledged)
    with writers.writing(per_second=400):
        wait_for(lambda: len(writers.acknowledged) >= before + ENOUGH, "messages to be acknowledged", seconds=60)
    written = len(writers.acknowledged) - before
    job.wait_for(lambda: row_count(job.table) >= rows + written, "rows in the table", poll_seconds=0.2)


def test_tail_lost_by_a_killed_broker(tmp_path: Path) -> None:
    """Messages that a killed broker lost are an error, and the rest is in the table once each."""
    with scenery(tmp_path, "apache") as (tube, spark, mark), job_of(tmp_path, mark, tube, spark) as job:
        assert isinstance(tube.servers, ApacheTubeMQ)
        writers = Writers(tube.settings, TOPIC.name)
        job.start()
        for _ in range(ATTEMPTS):
            write_and_have_read(writers, job)
            tube.servers.kill_broker(0)
            tube.start_broker(1)
            held = held_by_brokers(tube.settings, TOPIC.name)
            if len(held) < len(writers.acknowledged):
                break
        else:
            pytest.fail("the broker lost nothing")

        assert job.run.wait(END_SECONDS) == 1
        said = job.run.log.read_text()
        assert re.search(r"\[DATA_LOSS\] partition 1:numbers:\d+", said), job.run.tail()

        job.start(failOnDataLoss="false")
        job.wait_for(lambda: "failOnDataLoss is false; continuing" in job.run.log.read_text(), "the warning")
        write_and_have_read(writers, job)
        job.stop()
        verdict = judge(
            writers.acknowledged, writers.unknown, held_by_brokers(tube.settings, TOPIC.name), in_table(job.table)
        )
    assert verdict.once, "\n".join(verdict.lines())
    # All had been read before it was lost.
    assert verdict.gone == verdict.gone_and_read != []
    print("\n".join(verdict.lines()))
