"""The Data Source API of the running Spark. The source also loads on 4.0 and 4.1, which lack parts of it.

4.2 added row limits and the start offset in `latestOffset`; 4.1 added streaming writes of Arrow batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import datasource

__all__ = [
    "HAS_ARROW_STREAM_WRITES",
    "HAS_READ_LIMITS",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]

VERSION: str = pyspark.__version__

HAS_ARROW_STREAM_WRITES = hasattr(datasource, "DataSourceStreamArrowWriter")

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    HAS_READ_LIMITS = False
    if not TYPE_CHECKING:
        # Nothing creates any of these there.
        ReadLimit = type("ReadLimit", (), {})
        ReadAllAvailable, ReadMaxRows, ReadMinRows = (type(name, (ReadLimit,), {}) for name in ("All", "Max", "Min"))
        SupportsTriggerAvailableNow = type("SupportsTriggerAvailableNow", (), {})
else:
    HAS_READ_LIMITS = True

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
