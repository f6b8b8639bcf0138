"""`session`: of a process whose PATH has another Python, as in a notebook whose venv is not activated."""

from __future__ import annotations

import itertools
import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from spark_source.session import (
    asks_for_connect,
    check_user,
    session,
    session_builder,
)
from tests.spark_home import JAVA_OPTIONS, SPARK_HOME, bare_python, delta_confs
from tubeclient.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 150
SMALL = {"spark.driver.memory": "1g", "spark.sql.codegen.wholeStage": False, **delta_confs()}

FITTING = """
import json, sys
from pyspark.sql import SparkSession
from pyspark_tubeclient import session
from tubeclient import ConfigurationError

small, options, table, told = json.loads(sys.argv[1])
spark = session(master="local[2]", app_name="own", conf=small)
rows = spark.read.format("tubeclient").options(**options).load().selectExpr("CAST(value AS STRING) AS text")
rows.write.format("delta").save(table)
heard = {
    "count": spark.read.format("delta").load(table).count(),
    "name": spark.sparkContext.appName,
    "redaction": spark.conf.get("spark.redaction.regex"),
    "same": session() is spark and session(master="local[2]", app_name="other") is spark,
}
session(conf={"spark.sql.shuffle.partitions": 3})
heard["set"] = spark.conf.get("spark.sql.shuffle.partitions")
try:
    session(master="local[7]")
except ConfigurationError as error:
    heard["misfits"], heard["condition"] = str(error), error.condition
json.dump(heard, open(told, "w"))
"""

WITHOUT_JAVA = """
import json, sys
from pyspark_tubeclient import session
from tubeclient import ConfigurationError

[told] = json.loads(sys.argv[1])
try:
    session()
except ConfigurationError as error:
    json.dump([error.condition, str(error)], open(told, "w"))
"""


def run(script: str, folder: Path, *arguments: object, java_home: str | None = None, said: str | None = None) -> Any:
    """Run it with this Python, where PATH has another one; returns what it wrote in the file of the last argument.
    `said` is a regular expression of its standard error."""
    told = folder / "told.json"
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment = {
        **others,
        "PATH": f"{bare_python(folder / 'bin')}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_SUBMIT_OPTS": JAVA_OPTIONS,
        **({} if java_home is None else {"JAVA_HOME": java_home}),
    }
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps([*arguments, str(told)])],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if said is not None:
        assert done.stdout == ""
        assert re.fullmatch(said, done.stderr), done.stderr
    return json.loads(told.read_text())


def test_user_without_a_name() -> None:
    """A user ID without a name is an error before Spark starts."""
    check_user(os.getuid())
    named = {one.pw_uid for one in pwd.getpwall()}
    uid = next(uid for uid in itertools.count(54_321) if uid not in named)
    with pytest.raises(ConfigurationError, match=f"Spark cannot run as user {uid}, which has no entry in /etc/passwd"):
        check_user(uid)


@pytest.mark.spark
def test_session_without_environment_variables(tmp_path: Path) -> None:
    """A session needs no environment variables, and the next call returns the same one."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"%d" % number) for number in range(20)])
        options = {"masterServers": tube.master_address, "consumerGroup": "etl", "subscribe": "clicks"}
        heard = run(
            FITTING,
            tmp_path,
            SMALL,
            options,
            str(tmp_path / "table"),
            said="",
        )
    misfit = "the running SparkSession does not fit: its master is local[2], not local[7]. Restart this Python process"
    assert heard.pop("misfits").startswith(misfit)
    assert heard == {
        "count": 20,
        "name": "own",
        "redaction": "(?i)secret|password|passwd|token|access.?key|credential|storageoption",
        "same": True,
        "set": "3",
        "condition": "SESSION_DOES_NOT_FIT",
    }


def test_a_spark_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    condition, text = run(WITHOUT_JAVA, tmp_path, java_home=str(tmp_path / "no-java"), said="")
    assert condition == "JAVA_NOT_USABLE"
    reason, log = text.split(" Spark's output is in ")
    assert reason.startswith("Java was not found. Spark 4 needs JDK 17")
    assert "no-java" in Path(log).read_text()
    Path(log).unlink()


@pytest.mark.parametrize(
    ("master", "conf", "environment", "what"),
    [
        ("sc://host:15002/;token=hush", {}, {}, "master sc://host:15002"),
        (None, {"spark.remote": "sc://host/;token=hush"}, {}, "the setting spark.remote"),
        (None, {}, {"SPARK_REMOTE": "sc://host/;token=hush"}, "the variable SPARK_REMOTE"),
        (None, {"spark.api.mode": "classic"}, {"SPARK_API_MODE": "connect"}, None),
        ("spark://host:7077", {}, {}, None),
    ],
)
def test_spark_connect_is_recognised(
    monkeypatch: pytest.MonkeyPatch,
    master: str | None,
    conf: dict[str, str],
    environment: dict[str, str],
    what: str | None,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert asks_for_connect(master, conf) == what


def test_delta_package_or_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session asks for Delta's package unless its jar is already there."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "python3")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)

    def options() -> dict[str, str]:
        return dict(session_builder("x", "local[1]", {}, with_delta=True)._options)

    assert options()["spark.jars.packages"].startswith("io.delta:delta-spark_")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta-spark_4.2_2.13-4.4.0.jar").touch()  # as in an image
    assert "spark.jars.packages" not in options()


def test_spark_connect_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"master sc://host:15002 is for Spark Connect, .*builder\.remote"):
        session(master="sc://host:15002/;token=hush")
