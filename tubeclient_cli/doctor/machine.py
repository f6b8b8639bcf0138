"""This machine: Java, Python, packages, Delta's jars. Functions named `judge_*` are pure."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from spark_source.session import file_of_source, python_of
from tubeclient_cli.common.terminal import ExitCode
from tubeclient_cli.doctor.finding import Finding, good, note, problem

__all__ = [
    "OF_TASKS",
    "PACKAGES",
    "check_machine",
    "judge_jars",
    "judge_java",
    "judge_packages",
    "judge_python",
    "judge_source",
    "judge_spark",
    "versions",
]

PACKAGES: Final = (
    "pyspark-tubeclient",
    "protobuf",
    "pyspark",
    "pyarrow",
    "pandas",
    "numpy",
    "delta-spark",
    "deltalake",
)
_OF_DELTA: Final = ("delta-spark", "deltalake")
OF_TASKS: Final = [name for name in PACKAGES if name not in _OF_DELTA]
"""What executors need; only the driver's processes read and write the offsets table."""
_LEAST_JAVA: Final = 17
_LEAST_PYTHON: Final = (3, 11)
_JAVA_SECONDS: Final = 20.0


def check_machine() -> Iterator[Finding]:
    """The findings about this machine. Starts `java -version` and Spark's Python, for at most 20 s each."""
    yield judge_java(*_java())
    yield judge_python(sys.version_info[:2], sys.executable)
    yield judge_source(*_source())
    yield from judge_packages(versions(), importlib_requires(), "")
    yield judge_jars(_delta_jars(), versions().get("delta-spark"))


def versions() -> dict[str, str | None]:
    """The installed versions of PACKAGES; None for one that is missing."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def importlib_requires() -> list[str]:
    """What pyspark-tubeclient says that it needs; [] where it runs from a folder."""
    try:
        return importlib.metadata.requires("pyspark-tubeclient") or []
    except importlib.metadata.PackageNotFoundError:
        return []


def judge_java(path: str | None, said: str) -> Finding:
    """`said` is what `java -version` printed."""
    action = "install JDK 17 or newer, and set JAVA_HOME to it"
    if path is None:
        return problem("Java", "there is no java in JAVA_HOME or PATH", action)
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        return problem("Java", f"{path} does not tell its version", action)
    if int(found[1]) < _LEAST_JAVA:
        return problem("Java", f"{path} is Java {found[1]}, and Spark 4 needs {_LEAST_JAVA}", action)
    return good("Java", f"{found[1]}, {path}")


def judge_python(version: tuple[int, int], executable: str) -> Finding:
    text = f"{version[0]}.{version[1]}, {executable}"
    if version < _LEAST_PYTHON:
        return problem("Python", text, "use Python 3.11 or newer, on the driver and on all executors")
    return good("Python", text)


def judge_source(variable: str | None, python: str, found: str | None) -> Finding:
    """Whether the Python with which Spark looks for data sources finds this one: `found` is the file, if it does.

    `variable` is the environment's that names `python`; None if it is Spark's default.
    """
    if found is not None:
        return good("Spark's Python", f"{python} has {found}")
    text = f"{python} {'of PATH' if variable is None else f'of {variable}'} does not find pyspark_tubeclient"
    action = f'then format("tubeclient") is DATA_SOURCE_NOT_FOUND; set {variable or "PYSPARK_PYTHON"}={sys.executable}'
    if variable is None:
        # Commands set the variable themselves.
        return note("Spark's Python", text, f"{action} for notebooks and scripts of your own")
    return problem("Spark's Python", text, action, ExitCode.USAGE)


def judge_packages(installed: Mapping[str, str | None], requirements: Sequence[str], where: str) -> Iterator[Finding]:
    """Findings of each package that is missing or does not fit; one finding if all is well. `where` follows the check's
    name."""
    wrong = []
    for name, version in installed.items():
        wanted = next((text for text in requirements if re.match(rf"{name}[<>=!~ ]", text)), "")
        wanted = wanted.partition(";")[0].removeprefix(name).strip()
        if version is None:
            extra = "delta" if name in _OF_DELTA else "spark"
            if name == "pyspark-tubeclient":
                wrong.append(note(f"packages{where}", f"{name} is not installed by pip", "it runs from a folder"))
            else:
                wrong.append(
                    problem(f"packages{where}", f"{name} is missing", f"pip install 'pyspark-tubeclient[{extra}]'")
                )
        elif not fits(version, wanted):
            wrong.append(
                problem(f"packages{where}", f"{name} is {version}, not {wanted}", f"pip install '{name}{wanted}'")
            )
    yield from wrong
    if all(one.is_ok for one in wrong):
        there = ", ".join(f"{name} {version}" for name, version in installed.items() if version is not None)
        yield good(f"packages{where}", there)


def fits(version: str, wanted: str) -> bool:
    """Whether a version is within a range such as `>=4.0,<4.3`."""
    own = _numbers(version)
    for operator, text in re.findall(r"(<=|>=|==|<|>)\s*([\d.]+)", wanted):
        other = _numbers(text)
        size = max(len(own), len(other))
        left, right = own + (0,) * (size - len(own)), other + (0,) * (size - len(other))
        holds = {"<": left < right, "<=": left <= right, "==": left == right, ">=": left >= right, ">": left > right}
        if not holds[operator]:
            return False
    return True


def judge_spark(version: str, master: str, pyspark: str) -> Finding:
    """`version` is the JVM's, `pyspark` the Python package's."""
    text = f"{version} at {master}"
    if version.split(".")[:2] == pyspark.split(".")[:2]:
        return good("Spark", text)
    action = f"set SPARK_HOME to a Spark {pyspark}, or unset it; or pip install pyspark=={version}"
    return problem("Spark", f"{text}, and this Python has pyspark {pyspark}", action, ExitCode.USAGE)


def judge_jars(found: Sequence[str], wanted: str | None) -> Finding:
    """`found` are names of Delta's jars on this machine; `wanted` is the version of delta-spark."""
    fitting = [name for name in found if wanted is not None and name.endswith(f"{wanted}.jar")]
    if fitting:
        return good("Delta's jars", ", ".join(fitting))
    others = f"; there are {', '.join(found)}" if found else ""
    return note(
        "Delta's jars",
        f"not on this machine{others}",
        "`tubeclient ingest` downloads them at its first start, which needs a Maven repository; without one, copy them"
        " and name them with --conf spark.jars",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", re.sub(r"[^\d.].*", "", version))))


def _java() -> tuple[str | None, str]:
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None or not os.access(path, os.X_OK):
        return None, ""
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return path, ""
    return path, done.stderr + done.stdout


def _source() -> tuple[str | None, str, str | None]:
    """What `judge_source` judges."""
    variable, python = python_of(os.environ)
    return variable, python, file_of_source(python)


def _delta_jars() -> list[str]:
    """Names of Delta's jars in Spark's folder and in Ivy's."""
    folders = [*Path.home().glob(".ivy2*/jars")]
    home = os.environ.get("SPARK_HOME")
    if home:
        folders.append(Path(home) / "jars")
    else:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            folders.append(Path(str(importlib.metadata.distribution("pyspark").locate_file("pyspark/jars"))))
    return sorted({path.name for folder in folders for path in folder.glob("*delta-spark_*.jar")})
