"""A cluster whose executors lack this package, and a user's own script: what its errors begin with."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import uuid
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.exactly_once.job import SPARK
from tests.exactly_once.processes import Child, none_left
from tests.exactly_once.spark_cluster import SparkCluster
from tests.spark_home import SPARK_HOME

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
END_SECONDS = 180.0

OWN_SCRIPT = """
import json
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
master, checkpoint, told = sys.argv[1:]
cluster = {"masterServers": master}
reading = {**cluster, "consumerGroup": "etl", "subscribe": "clicks"}


def batch():
    spark.read.format("tubeclient").options(**reading).load().collect()


def stream():
    rows = spark.readStream.format("tubeclient").options(**reading, startingOffsets="earliest").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()


def write():
    rows = spark.createDataFrame([("a",)], "value string")
    rows.write.format("tubeclient").options(**cluster, topic="clicks").mode("append").save()


errors = {}
for action in (batch, stream, write):
    try:
        action()
    except Exception as error:
        errors[action.__name__] = str(error)
with open(told, "w") as file:
    json.dump(errors, file)
"""


def python(folder: Path, more: str) -> Path:
    """A folder with a python3 that has the packages of this one, but this project only if `more` has it."""
    folder.mkdir()
    script = folder / "python3"
    # Without "site" the link to this project in the packages' folder has no effect.
    path = f'PYTHONPATH="$PYTHONPATH:{more}{sysconfig.get_paths()["purelib"]}"'
    script.write_text(f'#!/bin/sh\n{path} exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return folder


def environment(folder: Path) -> dict[str, str | None]:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    # Spark gives the driver's PYTHONPATH to the executors' Pythons.
    return {"PATH": path, "PYSPARK_PYTHON": None, "PYSPARK_DRIVER_PYTHON": None, "PYTHONPATH": None}


def test_errors_name_the_package_the_executor_and_what_to_do(tmp_path: Path) -> None:
    script, told = tmp_path / "own.py", tmp_path / "errors.json"
    script.write_text(OWN_SCRIPT)
    mark = uuid.uuid4().hex
    lacking = environment(python(tmp_path / "lacking", ""))
    with (
        none_left(f"{mark}-spark", f"{mark}-job"),
        EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube,
        SparkCluster(tmp_path / "spark", f"{mark}-spark", workers=1, more=lacking) as spark,
    ):
        tube.load("clicks", [NewMessage(0, b"one")])
        small = {**SPARK, "spark.task.maxFailures": "1"}
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", spark.url]
        command += [part for name, value in small.items() for part in ("--conf", f"{name}={value}")]
        command += [str(script), tube.master_address, str(tmp_path / "checkpoint"), str(told)]
        complete = environment(python(tmp_path / "complete", f"{ROOT}:"))
        job = Child("job", command, tmp_path / "job.log", f"{mark}-job", complete)
        try:
            assert job.wait(END_SECONDS) == 0, job.tail()
        finally:
            job.kill()
    errors: dict[str, str] = json.loads(told.read_text())
    assert errors.keys() == {"batch", "stream", "write"}
    for action, text in errors.items():
        sentence = "[PACKAGE_MISSING] pyspark-tubeclient is not installed in the Python of executor "
        first, cause = text.split(sentence)
        assert len(first.splitlines()) <= 2, f"{action}: {text}"
        assert "Traceback" not in first
        assert sys.executable in cause.splitlines()[0]
        assert "Install it there with pip" in cause.splitlines()[0]
