"""Scripts with their own process and SparkSession, for settings that a session fixes at its start."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.spark_source.other_driver import HERE, ROOT, SMALL, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["new_session", "run_module"]


def new_session(confs: dict[str, str]) -> SparkSession:
    """For the script: a small session with these settings besides."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in {**SMALL, **confs}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run_module(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """For the test: run the script to its end, which comes within 200 s."""
    return subprocess.run(
        [sys.executable, "-m", name, *arguments],
        cwd=ROOT,
        env=environment(HERE),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
