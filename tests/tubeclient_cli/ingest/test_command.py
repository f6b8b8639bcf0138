"""The command as a user runs it: a process of its own, a terminal's Ctrl-C, and spark-submit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.exactly_once.processes import Child, marked, none_left, send_signal
from tests.spark_home import PIP_SPARK_HOME
from tests.tubeclient.records.avro_records import avsc, user, zigzag
from tests.tubeclient_cli.ingest.command import START_SECONDS, hold_next_round, ingest, settings_file, started
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]


def environment() -> dict[str, str]:
    """As a user's: with pip's Spark, which finds and fetches Delta's jars."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_HOME": str(PIP_SPARK_HOME)}


def to_group(number: signal.Signals) -> Callable[[Child], None]:
    return lambda job: os.killpg(job.pid, number)


def to_every_process(job: Child) -> None:
    """As service managers do that know a job by its control group: to the JVM and to Spark's Python workers as well."""
    for process in marked(job.mark):
        send_signal(process, signal.SIGTERM)


def at_first(job: Child) -> bool:
    return "starting Spark" in job.log.read_text()


def once_there_is_a_jvm(job: Child) -> bool:
    return any("org.apache.spark.deploy.SparkSubmit" in process.command for process in marked(job.mark))


def served(job: Child, name: str) -> float:
    """A metric of the job's query, from the address that it printed."""
    found = re.search(r"^metrics at (http://127\.0\.0\.1:\d+/metrics)$", job.log.read_text(), re.MULTILINE)
    assert found, job.tail()
    with urllib.request.urlopen(found[1], timeout=10) as answer:
        text = answer.read().decode()
    [value] = re.findall(rf'^tubeclient_query_{name}{{query="ingest clicks_etl"}} (\S+)$', text, re.MULTILINE)
    return float(value)


@pytest.mark.parametrize(
    ("number", "when"),
    [(signal.SIGINT, at_first), (signal.SIGTERM, at_first), (signal.SIGTERM, once_there_is_a_jvm)],
    ids=["ctrl-c", "timeout", "timeout-jvm"],
)
def test_signal_while_spark_starts(
    tube: EmbeddedTubeMQ, tmp_path: Path, number: signal.Signals, when: Callable[[Child], bool]
) -> None:
    """A signal while Spark starts ends the job cleanly."""
    job = ingest(tube, tmp_path)
    with none_left(job.mark):
        try:
            wait_for(lambda: not job.running or when(job), "the job to begin", seconds=START_SECONDS)
            os.killpg(job.pid, number)
            assert job.wait(START_SECONDS) == 0, job.tail()
        finally:
            job.kill()
    first, *_, last = job.log.read_text().strip().splitlines()
    assert first.startswith("starting Spark, ")
    assert last.startswith("stopped: 0 rows written in 0 rounds"), job.tail()
    assert "Traceback" not in job.log.read_text()
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(
    "send", [to_group(signal.SIGINT), to_group(signal.SIGTERM), Child.ask_to_end], ids=["ctrl-c", "timeout", "sigterm"]
)
def test_a_signal_ends_the_job_cleanly(tube: EmbeddedTubeMQ, tmp_path: Path, send: Callable[[Child], None]) -> None:
    with started(tube, tmp_path, rounds=3) as job:
        send(job)
        assert job.wait(60) == 0, job.tail()
    said = job.log.read_text()
    assert said.strip().splitlines()[-1].startswith("stopped: 50 rows written in 3 rounds"), said
    assert "Traceback" not in said
    assert DeltaTable(str(tmp_path / "table")).count() == 50


def test_signal_to_the_group_in_a_round(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """A job that gets a signal in a round finishes the round; until then it serves metrics."""
    with started(tube, tmp_path, "--metrics-port", "0", rounds=3) as job:
        hold_next_round(tube)
        assert served(job, "rows_total") == 50
        assert served(job, "batches_total") == 3
        assert served(job, "rows_behind") in (0, 10)  # the last round may have seen the ten that came after its commit
        assert time.time() - 600 < served(job, "last_batch_timestamp_seconds") <= time.time()
        os.killpg(job.pid, signal.SIGTERM)
        tube.broker_faults().answer_delay_ms = 0
        assert job.wait(60) == 0, job.tail()
    said = job.log.read_text()
    assert said.strip().splitlines()[-1].startswith("stopped: 60 rows written in 4 rounds"), said
    assert "Traceback" not in said


def test_signal_that_ends_spark_too(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """A signal that also ends Spark ends the job cleanly."""
    with started(tube, tmp_path, rounds=3) as job:
        hold_next_round(tube)
        to_every_process(job)
        assert job.wait(60) == 0, job.tail()
    said = job.log.read_text()
    assert said.strip().splitlines()[-1].startswith("stopped: "), said
    assert "Traceback" not in said


def test_a_failed_job_is_exit_code_1_and_one_sentence(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tubeclient_cli.app", "ingest", "--format", "json", "--schema", "id BIGINT"]
    command += ["--spark-master", "local[2]"]
    command += ["--settings", str(settings_file(tube, tmp_path, "available-now")), "--conf", "spark.driver.memory=1g"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=START_SECONDS, env=environment(), check=False
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("tubeclient ingest: [BAD_RECORD] ")


def test_spark_submit_runs_the_script(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """spark-submit runs the ingest script with the shipped settings."""
    command = [str(Path(sys.executable).parent / "spark-submit"), "--properties-file", "conf/spark-defaults.conf"]
    command += ["--master", "local[2]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
    command += ["--conf", "spark.sql.shuffle.partitions=2", "jobs/ingest_to_delta.py"]
    command += ["--settings", str(settings_file(tube, tmp_path, "available-now"))]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=START_SECONDS, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1].startswith("done: 50 rows written in 3 rounds"), done.stdout
    assert DeltaTable(str(tmp_path / "table")).count() == 50


def test_avro_with_an_impossible_length(tmp_path: Path) -> None:
    """An Avro job stores a record with an impossible length as bad and writes the others."""
    huge = zigzag(3) + b"\x02" + zigzag(2**31 - 10) + b"x"
    places = {"--format": "avro", "--schema": avsc(tmp_path), "--bad-records": str(tmp_path / "bad")}
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, body) for body in (user(1, "a"), huge, user(2, "b"))])
        more = [word for pair in places.items() for word in pair]
        job = ingest(tube, tmp_path, *more, trigger="available-now")
        with none_left(job.mark):
            try:
                assert job.wait(START_SECONDS) == 0, job.tail()
            finally:
                job.kill()
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table(columns=["id", "name"]).to_pylist()
    assert sorted(map(tuple, (row.values() for row in rows))) == [(1, "a"), (2, "b")]
    [bad] = DeltaTable(str(tmp_path / "bad")).to_pyarrow_table(columns=["value", "reason"]).to_pylist()
    assert bad == {"value": huge, "reason": "the bytes end within name, at byte 8"}
