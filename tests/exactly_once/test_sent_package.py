"""A cluster whose executors lack this package, which spark-submit sends: as docs/running.md says it."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.distributions import ROOT, Distributions
from tests.exactly_once.job import SPARK
from tests.exactly_once.processes import Child, none_left
from tests.exactly_once.spark_cluster import SparkCluster
from tests.spark_home import SPARK_HOME, lacking_python

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

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


def environment(folder: Path) -> dict[str, str | None]:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    # Spark gives the driver's PYTHONPATH to the executors' Pythons.
    return {"PATH": path, "PYSPARK_PYTHON": None, "PYSPARK_DRIVER_PYTHON": None, "PYTHONPATH": None}


def test_zip_on_the_python_path(tmp_path: Path, distributions: Distributions) -> None:
    """Driver and executors find it in their own folders: the executors' is the one that spark-submit sends it to."""
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    [variables, options] = re.findall(r"^    (PYTHONPATH=\S+) spark-submit (.*) job\.py$", page, re.MULTILINE)[0]
    mark = uuid.uuid4().hex
    lacking = environment(lacking_python(tmp_path / "lacking").parent)
    folder = tmp_path / "driver"
    folder.mkdir()
    shutil.copy(distributions.wheel, folder / "tubeclient.zip")
    told = folder / "errors.json"
    (folder / "job.py").write_text(OWN_SCRIPT)
    with (
        none_left(f"{mark}-spark", f"{mark}-job"),
        EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube,
        SparkCluster(tmp_path / "spark", f"{mark}-spark", workers=1, more=lacking) as spark,
    ):
        tube.load("clicks", [NewMessage(0, b"one")])
        small = {**SPARK, "spark.eventLog.enabled": "false", "spark.task.maxFailures": "1"}
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", spark.url, *options.split()]
        command += [part for name, value in small.items() for part in ("--conf", f"{name}={value}")]
        command += ["job.py", tube.master_address, str(tmp_path / "checkpoint"), str(told)]
        given = {**lacking, "PYTHONPATH": variables.removeprefix("PYTHONPATH=")}
        job = Child("job", command, tmp_path / "job.log", f"{mark}-job", given, folder)
        try:
            assert job.wait(END_SECONDS) == 0, job.tail()
        finally:
            job.kill()
        written = tube.bounds("clicks").max_offset // 28
    assert json.loads(told.read_text()) == {}
    assert written == 2
