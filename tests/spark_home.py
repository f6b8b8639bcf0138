"""A SPARK_HOME that Spark starts from with less work: `python -m tests.spark_home` makes it, once.

It is pip's Spark by links, in `.cache/`, but for three things. Delta's jars lie beside Spark's own, so no start
resolves them and no executor fetches them. Spark's Python processes import pyspark from where pip put it: the zip file
that they would take it from has no byte code, so each of them would compile it. And there is an archive of parsed and
verified classes (Java's class data sharing), which a JVM that does not fit it leaves aside without a word.

Where it was not made, tests start pip's Spark as it is. So do tests that are about a start like a user's.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.fetch_jars import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "JAVA_OPTIONS",
    "PIP_SPARK_HOME",
    "SPARK_HOME",
    "bare_python",
    "class_archive",
    "delta_confs",
    "lacking_python",
]

ROOT = Path(__file__).resolve().parents[1]
_MAKE_SECONDS = 300.0
_ARCHIVE: Final = "classes.jsa"


def _pip_spark() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).resolve().parent


def _own_home() -> Path:
    """For these versions; no matter whether it is there."""
    versions = [importlib.metadata.version(name) for name in ("pyspark", "delta-spark")]
    return ROOT / ".cache" / "spark-home" / "-".join(versions)


def _is_made(home: Path) -> bool:
    """Whether it is complete, and of this very Spark: `bin` is linked last."""
    return (home / "bin").resolve() == PIP_SPARK_HOME / "bin" and (home / "bin").is_dir()


PIP_SPARK_HOME: Final = _pip_spark()
"""Spark as pip installed it."""

SPARK_HOME: Final = _own_home() if _is_made(_own_home()) else PIP_SPARK_HOME
"""What tests start Spark from."""


def class_archive() -> Path | None:
    """The archive of classes for JVMs that start from SPARK_HOME; None without one."""
    found = SPARK_HOME / _ARCHIVE
    # Java options are told apart by blanks.
    return found if found.exists() and not any(map(str.isspace, str(found))) else None


QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Says nothing about archives of classes."""


_COMPILER: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""With this compiler alone Java reserves 48 MB for its code. Some twenty runs of the ingest job fill that; from then on
Java throws code away and compiles it anew, at up to twice the cost."""

_CLASSES: Final = class_archive()
_SHARING: Final = [] if _CLASSES is None else [f"-XX:SharedArchiveFile={_CLASSES}", QUIET]

JAVA_OPTIONS: Final = " ".join([*_COMPILER, "-XX:+UseSerialGC", "-XX:-UsePerfData", *_SHARING])
"""For JVMs that live for minutes at most: compile soon, not thoroughly, and with one thread each; and load classes that
were parsed and verified before, where they fit."""


def delta_confs() -> dict[str, str]:
    """Settings of a session that makes do with the jars in SPARK_HOME; none where Delta is not among them."""
    return {} if SPARK_HOME == PIP_SPARK_HOME else {"spark.jars.packages": ""}


def bare_python(folder: Path) -> Path:
    """A folder with a python3 that finds no installed packages."""
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return folder


def lacking_python(folder: Path) -> Path:
    """A python3 in a new folder, which finds the installed packages, and this project only on PYTHONPATH."""
    python = bare_python(folder) / "python3"
    # Without "site" the link to this project in the packages' folder has no effect.
    path = f'PYTHONPATH="$PYTHONPATH:{sysconfig.get_paths()["purelib"]}"'
    python.write_text(f'#!/bin/sh\n{path} exec {sys.executable} -S "$@"\n')
    return python


def _session(confs: dict[str, str]) -> SparkSession:
    from tubeclient_cli.common.session import make_session

    return make_session("spark_home", "local[2]", {"spark.driver.memory": "1g", **confs})


def _make() -> None:
    """Link and copy the files; Spark finds Delta's jars as it does for users."""
    home = _own_home()
    shutil.rmtree(home, ignore_errors=True)
    (home / "jars").mkdir(parents=True)
    for jar in sorted((PIP_SPARK_HOME / "jars").glob("*.jar")):
        (home / "jars" / jar.name).symlink_to(jar)
    resolve(home / "jars")
    (home / "sbin").symlink_to(PIP_SPARK_HOME / "sbin")
    (home / "bin").symlink_to(PIP_SPARK_HOME / "bin")


def _archive() -> None:
    """Do a little of everything, so that its classes are loaded when the JVM ends, which then writes the archive."""
    from pyspark import SparkContext

    from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
    from tests.tubeclient_ingest.bench import Bench

    made = SPARK_HOME / "unfinished.jsa"
    os.environ["SPARK_HOME"] = str(SPARK_HOME)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={made} {QUIET}"
    with (
        tempfile.TemporaryDirectory(prefix="spark-home-") as name,
        EmbeddedTubeMQ(Path(name) / "tube", [TopicConfig("clicks", 2, 1)]) as tube,
    ):
        folder = Path(name)
        spark = _session({**delta_confs(), "spark.sql.warehouse.dir": str(folder / "warehouse")})
        assert SparkContext._gateway is not None
        jvm = SparkContext._gateway.proc
        bench = Bench(tube, spark, folder)
        bench.send(50)
        bench.run(max_offsets_per_trigger=20)
        options = {"masterServers": tube.master_address, "consumerGroup": "plain", "subscribe": "clicks"}
        spark.read.format("tubeclient").options(**options).load().write.parquet(str(folder / "parquet"))
        spark.read.parquet(str(folder / "parquet")).groupBy("partition").count().collect()
        spark.stop()
        jvm.stdin.close()
        jvm.wait(_MAKE_SECONDS)
    made.rename(SPARK_HOME / _ARCHIVE)


def main(step: str | None = None) -> int:
    """Each step in a process of its own, for a JVM of its own; without an archive the rest is of use all the same."""
    if step is not None:
        {"make": _make, "archive": _archive}[step]()
        return 0
    for name in ("make", "archive"):
        command = [sys.executable, "-m", "tests.spark_home", name]
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=_MAKE_SECONDS * 2, check=False)
        if done.returncode:
            print(f"spark_home: step {name} failed; tests of Spark start more slowly", file=sys.stderr)
            break
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
