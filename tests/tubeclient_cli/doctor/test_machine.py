"""What the doctor says of a machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tubeclient_cli.common.terminal import ExitCode
from tubeclient_cli.doctor.finding import Finding, good, note, problem, verdict
from tubeclient_cli.doctor.machine import (
    check_machine,
    fits,
    judge_jars,
    judge_java,
    judge_packages,
    judge_python,
    judge_source,
    judge_spark,
)


@pytest.mark.parametrize(
    ("path", "said", "ok", "text"),
    [
        ("/jdk/bin/java", 'openjdk version "17.0.9" 2023-10-17', True, "17, /jdk/bin/java"),
        ("/jdk/bin/java", 'openjdk version "21" 2023-09-19', True, "21, "),
        ("/jdk/bin/java", 'java version "1.8.0_392"', False, "is Java 8, and Spark 4 needs 17"),
        ("/jdk/bin/java", "", False, "does not tell its version"),
        (None, "", False, "no java in JAVA_HOME or PATH"),
    ],
)
def test_java(path: str | None, said: str, ok: bool, text: str) -> None:
    found = judge_java(path, said)
    assert (found.is_ok, text in found.text) == (ok, True), found


def test_python() -> None:
    assert judge_python((3, 12), "/p").is_ok
    assert not judge_python((3, 10), "/p").is_ok


@pytest.mark.parametrize(
    ("version", "wanted", "does"),
    [
        ("4.2.0", ">=4.0,<4.3", True),
        ("3.5.1", "<4.3,>=4.0", False),
        ("4.3", "<4.3,>=4.0", False),
        ("4.4.0", "==4.4.0", True),
        ("4.4.1", "==4.4.0", False),
        ("23.0.0.dev1", ">=21,<27", True),
        ("8", "<8", False),
        ("4", ">=4.0,<4.3", True),
        ("0.1", "", True),
    ],
)
def test_versions_that_fit(version: str, wanted: str, does: bool) -> None:
    assert fits(version, wanted) is does


def test_sparks_python() -> None:
    assert judge_source("PYSPARK_PYTHON", "/venv/bin/python", "/site/pyspark_tubeclient/__init__.py").is_ok
    wrong = judge_source("PYSPARK_PYTHON", "/bare/python", None)
    assert (wrong.code, "DATA_SOURCE_NOT_FOUND" in wrong.action) == (ExitCode.USAGE, True)
    assert wrong.text == "/bare/python of PYSPARK_PYTHON does not find pyspark_tubeclient"
    of_notebooks = judge_source(None, "python3", None)
    assert of_notebooks.is_ok, "commands set the variable themselves"
    assert f"set PYSPARK_PYTHON={sys.executable}" in of_notebooks.action


def test_sparks_python_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Python that cannot import the source."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", str(python))
    [found] = [one for one in check_machine() if one.check == "Spark's Python"]
    assert found.text.startswith(f"{python} of PYSPARK_DRIVER_PYTHON does not find")


def test_spark_and_pyspark() -> None:
    assert judge_spark("4.2.0", "local[*]", "4.2.1") == good("Spark", "4.2.0 at local[*]")
    other = judge_spark("4.0.1", "spark://m:7077", "4.2.0")
    assert (other.code, other.text) == (
        ExitCode.USAGE,
        "4.0.1 at spark://m:7077, and this Python has pyspark 4.2.0",
    )
    assert "pip install pyspark==4.0.1" in other.action


def test_packages() -> None:
    requirements = ['pyspark<4.3,>=4.0; extra == "spark"', 'delta-spark==4.4.0; extra == "delta"']
    [all_well] = judge_packages({"pyspark": "4.2.0", "delta-spark": "4.4.0"}, requirements, "")
    assert all_well == good("packages", "pyspark 4.2.0, delta-spark 4.4.0")
    old, missing = judge_packages({"pyspark": "3.5.1", "delta-spark": None}, requirements, " on executor e")
    assert old.text == "pyspark is 3.5.1, not <4.3,>=4.0"
    assert (missing.check, missing.text) == ("packages on executor e", "delta-spark is missing")
    assert missing.action == "pip install 'pyspark-tubeclient[delta]'"
    folder, _ = judge_packages({"pyspark-tubeclient": None, "pyspark": "4.2.0"}, requirements, "")
    assert folder.is_ok


def test_jars() -> None:
    assert judge_jars(["io.delta_delta-spark_4.2_2.13-4.4.0.jar"], "4.4.0").action == ""
    other = judge_jars(["io.delta_delta-spark_2.13-4.0.0.jar"], "4.4.0")
    assert other.is_ok
    assert "downloads them" in other.action


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([good("a", ""), note("b", "", "")], 0),
        ([good("a", ""), problem("b", "", "")], 1),
        ([problem("b", "", "", ExitCode.USAGE), problem("b", "", "")], 2),
        ([problem("b", "", "", ExitCode.UNREACHABLE), good("a", "")], 3),
    ],
)
def test_all_findings_together(findings: list[Finding], code: int) -> None:
    assert verdict(findings) == code
