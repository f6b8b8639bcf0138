"""A planner against brokers that are books, and the tables that are made of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psutil
import pytest

from bench.books import Shape
from bench.parties import BROKER, DRAINERS, JVM, PYTHON, Clock, Cpu, party_of, spent
from bench.planned_day import Day, Memory, PlannedBatch
from bench.scale_lines import Measured, grows, ten_lines
from bench.scale_parts import TableCommits, requests_of_a_range, table_commits
from tests.test_packaging import run_python

SHAPE = Shape(brokers=3, topics=2, stores=2, partitions=5, rows_a_second=1_000)

PLAN = f"""
import tempfile
from pathlib import Path
from bench.books import Shape
from bench.planned_day import plan_for
from tests.simulation.ingest import install
install()
with tempfile.TemporaryDirectory() as folder:
    day = plan_for(Path(folder), Shape{tuple(SHAPE)}, source_count=4, batches=3, interval_seconds=60, samples=3)
for one in day.batches:
    print(one.tasks, one.ranges, one.connections, one.offsets_bytes > 100, one.plan_bytes > 100, one.planner_ms > 0)
print(len(day.memory), day.seconds // 10, day.book_calls, day.master_calls > 4)
"""


def test_each_batch_has_all_partitions_and_asks_each_broker_once() -> None:
    found = run_python("-c", PLAN, timeout=100)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["4 60 12 True True True"] * 3 + ["3 18.0 9 True"]


@pytest.mark.parametrize(("each_hour", "answer"), [(0, False), (100, False), (1_000, True), (-1_000, False)])
def test_memory_grows_if_its_blocks_do_hour_by_hour(each_hour: int, answer: bool) -> None:
    """Not if they only did in the first hours."""
    memory = [Memory(hour, 1_000_000 + each_hour * hour + (0 if hour > 5 else -90_000), 0) for hour in range(24)]
    assert grows(memory) is answer


def test_what_is_computed_follows_from_what_was_measured() -> None:
    batch = PlannedBatch(10.0, 5.0, 1.0, 4.0, 40_000, 600_000, 1_000, 10_000, 10_000)
    day = Day([batch] * 3, [], 30.0, 1.0, 3_000, 0.3, 30)
    shape = Shape(10, 10, 10, 10, 10_000_000)
    commits = TableCommits(500.0, 10_000, 2_000)
    lines = ten_lines(Measured(shape, day, day, Counter(register=2), commits, 47_000_000, 1_000, 10.0, 2.0, 40.0))
    found = {line.what: line.value for line in lines}
    assert found["planner: CPU of a batch"] == "16 ms; 16 ms"
    assert found["planner: share of a core"] == "0.2 %; 0.2 %"
    assert found["checkpoint: offsets in a day"] == "346 MB; 346 MB"
    assert found["registrations at brokers, a second"] == "2,000, 200 a broker"
    assert found["a broker's CPU for them and for as many ends"] == "0.8 % of a core"
    assert found["offsets table: kept, 7 days"] == "605 MB of data"
    assert found["executors: cores for rows of 100 bytes"] == "20"


def test_a_range_takes_a_partition_over_and_gives_it_back(tmp_path: Path) -> None:
    requests = requests_of_a_range(tmp_path)
    assert (requests["register"], requests["unregister"]) == (1, 1)
    assert requests["get_messages"] >= 1


def test_a_commit_of_the_offsets_table_has_a_size(tmp_path: Path) -> None:
    commits = table_commits(tmp_path, 20, 2)
    assert commits.data_bytes > 1_000
    assert commits.log_bytes > 100
    assert commits.milliseconds > 0


def test_processes_are_known_by_their_commands() -> None:
    assert party_of("java -cp some.jar X broker.ini") == BROKER
    assert party_of("python -m pyspark.daemon pyspark.sql.worker") == PYTHON
    assert party_of("java org.apache.spark.deploy.SparkSubmit pyspark-shell") == JVM
    assert party_of("python -c from multiprocessing.spawn import spawn_main") == DRAINERS
    assert party_of("bash") is None


def test_a_new_process_counts_from_its_beginning_and_one_that_is_gone_does_not() -> None:
    me = psutil.Process()
    other = psutil.Process(me.ppid())
    before = {me: Clock(PYTHON, Cpu(1.0, 0.5))}
    after = {me: Clock(PYTHON, Cpu(1.5, 0.75)), other: Clock(PYTHON, Cpu(0.25, 0.125))}
    assert spent(before, after, 500_000)[PYTHON] == Cpu(1.5, 0.75)
    assert spent(after, before, 500_000)[PYTHON] == Cpu(-1.0, -0.5)
    assert spent(before, after, 500_000)[JVM].total == 0.0
