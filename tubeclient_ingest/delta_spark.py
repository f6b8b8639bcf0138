"""What delta-spark needs besides: which errors are conflicts, and new tables without the session's properties."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_conflict", "without_defaults"]

# Delta's error classes for a conflicting concurrent commit.
_CONFLICTS: Final = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."


def is_conflict(error: Exception) -> bool:
    """Whether a commit through delta-spark failed because another writer's came first."""
    from pyspark.errors import PySparkException

    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return any(mark in (condition or str(error)) for mark in _CONFLICTS)


@contextlib.contextmanager
def without_defaults(spark: SparkSession) -> Iterator[None]:
    """Within it a new table has none of the session's properties for new tables, with which we may not write it."""
    confs = {name: value for name, value in spark.conf.getAll.items() if name.startswith(_DEFAULTS)}
    try:
        for name in confs:
            spark.conf.unset(name)
        yield
    finally:
        for name, value in confs.items():
            spark.conf.set(name, value)
