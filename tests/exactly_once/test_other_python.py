"""A cluster whose machines have, first on PATH, a Python without our packages: the job as docs/running.md says it."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.exactly_once.job import SPARK
from tests.exactly_once.processes import Child, none_left
from tests.exactly_once.spark_cluster import SparkCluster
from tests.spark_home import PIP_SPARK_HOME
from tests.tubeclient_cli.ingest.command import settings_file

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
END_SECONDS = 360.0


def bare_python(folder: Path) -> Path:
    """A folder with a python3 that finds no installed packages."""
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return folder


def test_the_documented_command_runs_where_python3_on_path_lacks_the_packages(tmp_path: Path) -> None:
    documented = "PYSPARK_PYTHON=/path/to/venv/bin/python spark-submit --properties-file conf/spark-defaults.conf \\\n"
    documented += "        jobs/ingest_to_delta.py --settings conf/ingest.toml"
    assert documented in (ROOT / "docs" / "running.md").read_text()

    path = f"{bare_python(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
    bare = {"PATH": path, "PYSPARK_PYTHON": None, "PYSPARK_DRIVER_PYTHON": None, "SPARK_HOME": str(PIP_SPARK_HOME)}
    mark = uuid.uuid4().hex
    with (
        none_left(f"{mark}-spark", f"{mark}-job"),
        EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube,
        SparkCluster(tmp_path / "spark", f"{mark}-spark", workers=1, more=bare, home=PIP_SPARK_HOME) as spark,
    ):
        tube.load("clicks", [NewMessage(0, str(n).encode()) for n in range(50)])
        small = SPARK
        command = [str(PIP_SPARK_HOME / "bin" / "spark-submit"), "--properties-file", "conf/spark-defaults.conf"]
        command += ["--master", spark.url]
        command += [part for name, value in small.items() for part in ("--conf", f"{name}={value}")]
        command += ["jobs/ingest_to_delta.py", "--settings", str(settings_file(tube, tmp_path, "available-now"))]
        job = Child(
            "job", command, tmp_path / "job.log", f"{mark}-job", {**bare, "PYSPARK_PYTHON": sys.executable}, ROOT
        )
        try:
            assert job.wait(END_SECONDS) == 0, job.tail()
        finally:
            job.kill()
    assert DeltaTable(str(tmp_path / "table")).count() == 50
