"""The source on YARN, in the ways that docs/running.md shows."""

from __future__ import annotations

import re
import shutil
import sysconfig
import tarfile
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.distributions import ROOT, Distributions, EmptyEnvironment
from tests.exactly_once.processes import Child, none_left
from tests.spark_home import JAVA_OPTIONS, PIP_SPARK_HOME, lacking_python
from tests.yarn_cluster import yarn_cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

END_SECONDS = 150.0

JOB = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
master, folder = sys.argv[1:]
options = {"masterServers": master, "consumerGroup": "etl", "subscribe": "clicks", "startingOffsets": "earliest"}
rows = spark.read.format("tubeclient").options(**options).load()
rows.select("value").write.parquet(folder + "/batch")
rows = spark.readStream.format("tubeclient").options(**options).load().select("value")
rows = rows.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
rows.trigger(availableNow=True).start(folder + "/stream").awaitTermination()
spark.stop()
"""

PAGE = (ROOT / "docs" / "running.md").read_text(encoding="utf-8").replace("\\\n", "")
COMMANDS = re.findall(r"^    (?:(\w+)=(\S+) )?spark-submit (--master yarn .*) job\.py$", PAGE, re.MULTILINE)

SMALL = {
    **{f"spark.{kind}.extraJavaOptions": JAVA_OPTIONS for kind in ("driver", "executor", "yarn.am")},
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.instances": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.yarn.jars": f"local:{PIP_SPARK_HOME}/jars/*",  # otherwise all of them are copied for each job
    "spark.yarn.maxAppAttempts": "1",
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",  # which hands it on to executors
}


def pack(folder: Path, wheel: Path) -> None:
    """An environment with this package, as venv-pack makes it; the others are those of this Python."""
    made = EmptyEnvironment(folder / "venv")
    done = made.install("--no-deps", str(wheel))
    assert done.returncode == 0, done.stderr
    [packages] = (folder / "venv").glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(folder / "venv", ".")


def test_batch_and_stream_on_yarn(tmp_path: Path, distributions: Distributions) -> None:
    assert len(COMMANDS) == 3, COMMANDS
    mark = uuid.uuid4().hex
    lacking = lacking_python(tmp_path / "lacking")
    with (
        none_left(f"{mark}-yarn", f"{mark}-job"),
        EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", partitions=2)]) as tube,
        yarn_cluster(tmp_path / "yarn", f"{mark}-yarn") as conf,
    ):
        tube.load("clicks", [NewMessage(number % 2, b"%d" % number) for number in range(20)])
        for number, (name, value, options) in enumerate(COMMANDS):
            folder = tmp_path / f"job-{number}"
            folder.mkdir()
            shutil.copy(distributions.wheel, folder / "tubeclient.zip")
            pack(folder, distributions.wheel)
            (folder / "job.py").write_text(JOB)
            confs = {**SMALL, "spark.yarn.stagingDir": f"file:{folder}/staging"}
            command = [str(PIP_SPARK_HOME / "bin" / "spark-submit"), *options.split()]
            command += [part for pair in confs.items() for part in ("--conf", "=".join(pair))]
            command += ["job.py", tube.master_address, str(folder)]
            given = {"HADOOP_CONF_DIR": str(conf), "SPARK_HOME": str(PIP_SPARK_HOME), "PYTHONPATH": None}
            given |= {"PYSPARK_PYTHON": str(lacking), "PYSPARK_DRIVER_PYTHON": None, **({name: value} if name else {})}
            job = Child("job", command, folder / "job.log", f"{mark}-job", given)
            try:
                assert job.wait(END_SECONDS) == 0, job.tail()
            finally:
                job.kill()
            for kind in ("batch", "stream"):
                read = pq.read_table(folder / kind).column("value").to_pylist()
                assert sorted(map(int, read)) == list(range(20)), (options, kind)
