"""The names that users import. All other modules are internal and may change.

    from pyspark_tubeclient import Ingest, LagListener, OffsetsTable, session

Spark looks for `DefaultSource` in every module named `pyspark_*`; so `format("tubeclient")` works once the package is
installed. A failed import here would break Spark's other Python sources too, so the other names are imported on first
use. What works without Spark is in `tubeclient` and `embedded_tubemq`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    from spark_source.source import TubeSource as DefaultSource
except ModuleNotFoundError as error:
    if error.name == "pyspark":
        from tubeclient.extras import MissingPackage

        raise MissingPackage.of(error, "spark") from None
    if error.name != "pyspark.sql.datasource":
        raise
    import pyspark

    raise ImportError(
        f"[NEEDS_NEWER_SPARK] this Python has pyspark {pyspark.__version__}, but Python data sources need Spark 4"
    ) from None

if TYPE_CHECKING:
    from offsets_store import GroupKey, OffsetsTable, OffsetsTableError, PartitionProgress
    from spark_source.progress.lag_listener import LagListener, QueryLag
    from spark_source.session import session
    from spark_source.typed.inlong_records import inlong_records
    from spark_source.typed.typed import typed
    from tubeclient_ingest.job import Ingest, IngestFailed

__all__ = [
    "DefaultSource",
    "GroupKey",
    "Ingest",
    "IngestFailed",
    "LagListener",
    "OffsetsTable",
    "OffsetsTableError",
    "PartitionProgress",
    "QueryLag",
    "inlong_records",
    "session",
    "typed",
]

_HOMES = {
    "GroupKey": "offsets_store",
    "Ingest": "tubeclient_ingest.job",
    "IngestFailed": "tubeclient_ingest.job",
    "LagListener": "spark_source.progress.lag_listener",
    "OffsetsTable": "offsets_store",
    "OffsetsTableError": "offsets_store",
    "PartitionProgress": "offsets_store",
    "QueryLag": "spark_source.progress.lag_listener",
    "inlong_records": "spark_source.typed.inlong_records",
    "session": "spark_source.session",
    "typed": "spark_source.typed.typed",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
