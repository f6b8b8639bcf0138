"""What the Spark that runs this has of the Data Source API: the source loads on 4.0 and 4.1 too, which have less.

Row limits, and being told where a batch begins, came with 4.2; writing streams of Arrow batches with 4.1.
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
        # Nobody makes any of these there.
        ReadLimit = type("ReadLimit", (), {})
        ReadAllAvailable, ReadMaxRows, ReadMinRows = (type(name, (ReadLimit,), {}) for name in ("All", "Max", "Min"))
        SupportsTriggerAvailableNow = type("SupportsTriggerAvailableNow", (), {})
else:
    HAS_READ_LIMITS = True

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
