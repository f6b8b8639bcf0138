"""What of Spark's output a user sees."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from spark_source.spark_log import SparkLog, is_for_users, start_failure
from tests.waiting import wait_for

WARNING = "2026-11-23 19:00:00,123 WARNING spark_source.read.task_read: node 1 kept 2 bad messages as rows"

IVY = """
:: loading settings :: url = jar:file:/spark/jars/ivy-2.5.3.jar!/org/apache/ivy/core/settings/ivysettings.xml
:: problems summary ::
:::: WARNINGS
\t\tmodule not found: io.delta#delta-spark_4.2_2.13;4.4.0
:::: ERRORS
\tServer access error at url https://repo1.maven.org/maven2/x.pom (java.net.UnknownHostException: repo1.maven.org)
:: USE VERBOSE OR DEBUG MESSAGE LEVEL FOR MORE DETAILS
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: io.delta#delta-spark_4.2_2.13;4.4.0: no]
"""
HOMELESS = """
:: resolving dependencies :: org.apache.spark#spark-submit-parent-6c7aaa57;1.0
\tconfs: [default]
Exception in thread "main" java.io.FileNotFoundException: /home/none/.ivy2.5.2/cache/resolved-1.0.xml (No such file)
"""


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (IVY, "[JARS_NOT_FOUND] Spark cannot get io.delta#delta-spark_4.2_2.13;4.4.0. Let this machine reach a Maven"),
        (
            HOMELESS,
            "[JARS_NOT_FOUND] Spark cannot store the jars that it downloads in /home/none/.ivy2.5.2: the user's",
        ),
        ("JAVA_HOME is not set\n", "[JAVA_NOT_USABLE] Java was not found. Spark 4 needs JDK 17"),
        ("bin/spark-class: line 97: /no/bin/java: No such file or directory", "[JAVA_NOT_USABLE] Java was not found"),
    ],
)
def test_why_spark_does_not_start_is_told(output: str, said: str) -> None:
    assert (start_failure(output) or "").startswith(said)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-23 19:00:00,123 WARNING spark_source.stream.planner: failOnDataLoss is false; continuing: x",
        "2026-11-23 19:00:00,123 ERROR offsets_store.run: no",
    ],
)
def test_warnings_of_the_source_are_for_users(line: str) -> None:
    assert is_for_users(line)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-23 19:00:00,123 INFO spark_source.stream.planner: batch planned",
        "26/11/23 19:00:00 ERROR MicroBatchExecution: Query [id = 1] terminated with error",
        "\tat org.apache.spark.Foo",
        ":: loading settings :: url = jar:file",
        "",
    ],
)
def test_other_lines_are_for_the_file(line: str) -> None:
    assert not is_for_users(line)


def test_output_and_warnings_of_a_child() -> None:
    """The log file gets a child's output, and users see only its warnings."""
    shown: list[str] = []
    code = f"import sys; print('noise'); print({WARNING!r}, file=sys.stderr)"
    with SparkLog(shown.append) as log:
        subprocess.run([sys.executable, "-c", code], stdout=log.fileno(), stderr=log.fileno(), check=True, timeout=60)
        wait_for(lambda: shown, "the warning")
        logging.getLogger("py4j.clientserver").warning("a trace of Py4J")
        assert "noise" in log.text()
        assert "a trace of Py4J" in log.text()
    assert shown == [WARNING]
    assert not log.path.exists()


def test_large_log_file_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log file that is too large is emptied, and later warnings are still shown."""
    monkeypatch.setattr("spark_source.spark_log._LARGEST_FILE_BYTES", 1_000)
    shown: list[str] = []
    with SparkLog(shown.append) as log:
        for run in range(2):
            os.write(log.fileno(), b"noise\n" * 1_000 + f"{WARNING} {run}\n".encode())
            wait_for(lambda: log.path.stat().st_size == 0, "the file's new beginning")
    assert shown == [f"{WARNING} 0", f"{WARNING} 1"]
