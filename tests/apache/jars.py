"""Apache TubeMQ's jars: `python -m tests.apache.jars` fetches them, `class_path()` is for the fixtures."""

from __future__ import annotations

import functools
from typing import Final

from tests.apache.artifacts import ARTIFACTS
from tools.maven_jars import JarsError, JarSet, java_executable, pyspark_jar

__all__ = ["TUBEMQ_JARS", "JarsError", "class_path", "java_executable", "pyspark_jar"]

TUBEMQ_JARS: Final = JarSet("apache-tubemq", ARTIFACTS)


@functools.lru_cache(maxsize=1)
def class_path() -> str:
    """A java class path of all the jars, in the order of the list; what the fixtures call."""
    return TUBEMQ_JARS.class_path()


if __name__ == "__main__":
    raise SystemExit(TUBEMQ_JARS.report())
