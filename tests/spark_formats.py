"""Spark's packages for Avro and protobuf, for sessions of the tests.

Not every registry has spark-protobuf. A jar of it that lies in `.cache/spark-protobuf/` is taken; without one, tests
that need it are skipped.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Final

import pytest

from tools.maven_jars import JarSet, parse_artifacts

__all__ = ["has_protobuf", "needs_protobuf", "with_formats"]

_PROTOBUF: Final = sorted((Path(__file__).resolve().parents[1] / ".cache" / "spark-protobuf").glob("*.jar"))
_AVRO: Final = JarSet(
    "spark-avro", parse_artifacts(f"org.apache.spark:spark-avro_2.13:{importlib.metadata.version('pyspark')}")
)

needs_protobuf = pytest.mark.skipif(not _PROTOBUF, reason="no jar of spark-protobuf in .cache/spark-protobuf")


def has_protobuf() -> bool:
    """Whether a session of the tests reads protobuf."""
    return bool(_PROTOBUF)


def with_formats() -> dict[str, str]:
    """Settings of a session that reads Avro, and protobuf where its jar is there."""
    return {"spark.jars": ",".join(map(str, [*_AVRO.files(), *_PROTOBUF]))}
