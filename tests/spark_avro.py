"""Spark's package for Avro, for sessions of the tests: `python -m tests.spark_avro` fetches it."""

from __future__ import annotations

import importlib.metadata
from typing import Final

from spark_source.typed.avro import AVRO_LIMITS, AVRO_PACKAGE
from tools.maven_jars import JarSet, parse_artifacts

__all__ = ["avro_confs"]

_JARS: Final = JarSet("spark-avro", parse_artifacts(f"{AVRO_PACKAGE}:{importlib.metadata.version('pyspark')}"))


def avro_confs() -> dict[str, str]:
    """Settings of a session that reads Avro."""
    return {"spark.jars": ",".join(map(str, _JARS.files())), "spark.driver.defaultJavaOptions": AVRO_LIMITS}


if __name__ == "__main__":
    raise SystemExit(_JARS.report())
