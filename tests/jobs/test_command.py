"""The command as a user runs it: a process of its own, a terminal's Ctrl-C, and spark-submit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.store import NewMessage
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 150.0


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as running:
        running.load("clicks", [NewMessage(0, str(n).encode()) for n in range(50)])
        yield running


def settings_file(tube: EmbeddedTubeMQ, folder: Path, trigger: str) -> Path:
    path = folder / "ingest.toml"
    path.write_text(
        f"""
        [ingest]
        master-servers = "{tube.master_address}"
        consumer-group = "clicks_etl"
        topics = ["clicks"]
        target = "{folder / "table"}"
        checkpoint = "{folder / "checkpoint"}"
        max-offsets-per-trigger = 20
        trigger = "{trigger}"
        [source]
        masterWebPort = {tube.master_web_port}
        """
    )
    return path


def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("to_all", [True, False], ids=["ctrl-c", "sigterm"])
def test_a_signal_ends_the_job_cleanly(tube: EmbeddedTubeMQ, tmp_path: Path, to_all: bool) -> None:
    progress, log = tmp_path / "progress.jsonl", tmp_path / "log"
    command = [sys.executable, "-m", "tubeclient_cli.app", "ingest", "--progress-file", str(progress)]
    command += ["--settings", str(settings_file(tube, tmp_path, "1s")), "--spark-master", "local[2]"]
    command += ["--conf", "spark.driver.memory=1g", "--conf", "spark.sql.shuffle.partitions=2"]
    with log.open("wb") as output:
        job = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment(), start_new_session=True
        )
        try:

            def three_batches() -> bool:
                assert job.poll() is None, log.read_text()
                return progress.exists() and progress.read_text().count("\n") == 3

            wait_for(three_batches, "three batches", seconds=START_SECONDS)
            if to_all:
                # A terminal's Ctrl-C goes to every process of the group: to the JVM and Spark's Python workers as well.
                os.killpg(job.pid, signal.SIGINT)
            else:
                job.terminate()
            assert job.wait(60) == 0, log.read_text()
        finally:
            if job.poll() is None:
                job.kill()
                job.wait(10)
    said = log.read_text()
    assert said.strip().splitlines()[-1].startswith("stopped: 50 rows in 3 batches"), said
    assert "Traceback" not in said
    assert [json.loads(line)["total_rows"] for line in progress.read_text().splitlines()] == [20, 40, 50]
    assert DeltaTable(str(tmp_path / "table")).count() == 50


def test_a_failed_job_is_exit_code_1_and_one_sentence(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tubeclient_cli.app", "ingest", "--topic", "nosuch", "--spark-master", "local[2]"]
    command += ["--settings", str(settings_file(tube, tmp_path, "available-now")), "--conf", "spark.driver.memory=1g"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=START_SECONDS, env=environment(), check=False
    )
    assert done.returncode == 1, done.stderr
    assert "nosuch" in done.stderr.strip().splitlines()[-1]


def test_spark_submit_runs_the_script_with_the_shipped_settings(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "spark-submit"), "--properties-file", "conf/spark-defaults.conf"]
    command += ["--master", "local[2]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
    command += ["--conf", "spark.sql.shuffle.partitions=2", "jobs/ingest_to_delta.py"]
    command += ["--settings", str(settings_file(tube, tmp_path, "available-now"))]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=START_SECONDS, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1].startswith("done: 50 rows in 3 batches"), done.stdout
    assert DeltaTable(str(tmp_path / "table")).count() == 50
