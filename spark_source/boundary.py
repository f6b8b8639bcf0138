"""Where this source meets Spark: how errors leave it, its log in Spark's processes, and what the running Spark's Data
Source API has. Errors that users can act on leave as one line, with their stable name.

Spark's Python workers write an exception's whole traceback into the text that users see, 20 to 60 lines of code that is
not theirs. Other exceptions are bugs, and keep it.

The source also loads on Spark 4.0 and 4.1. 4.2 added row limits and the start offset in `latestOffset`; 4.1 added
streaming writes of Arrow batches.

This module imports nothing of this project: Spark's search for data sources imports it.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import datasource

_log = logging.getLogger(__name__)

_Item = TypeVar("_Item")

_OF_SPARK: Final = ("pyarrow", "numpy", "pandas")
"""pip brings them with the extra `spark`, not with pyspark."""

_PACKAGES: Final = ("spark_source", "tubeclient", "offsets_store")

_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
"""Spark's variable of `spark.sql.execution.pyspark.udf.hideTraceback.enabled`, read when a worker reports an error."""

_STACK_BYTES: Final = 1 << 20
_M_ARENA_MAX: Final = -8
"""Of glibc's malloc.h."""


@contextmanager
def as_one_line() -> Iterator[None]:
    """A block, or a method as a decorator, that Spark calls. The full traceback goes to the log, at level DEBUG."""
    show_log()
    try:
        yield
    except Exception as error:
        from offsets_store.errors import OffsetsTableError
        from tubeclient.conditions import error_text
        from tubeclient.errors import TubeError
        from tubeclient.extras import MissingPackage

        if isinstance(error, ModuleNotFoundError) and error.name in _OF_SPARK:
            error = MissingPackage.of(error, "spark")
        if not isinstance(error, TubeError | OffsetsTableError | MissingPackage):
            raise
        _log.debug("this error goes to Spark without its traceback", exc_info=True)
        if main_module().startswith("pyspark."):
            # A process of Spark's, which reports one error and ends.
            os.environ[_HIDE_TRACEBACK] = "1"
        error.args = (error_text(error), *error.args[1:])
        raise error.with_traceback(None) from None


def one_line_errors(items: Iterable[_Item]) -> Iterator[_Item]:
    """The same items; an error while they are made leaves as from `as_one_line`."""
    with as_one_line():
        yield from items


def main_module() -> str:
    """The name of the module that this process runs with `python -m`; "" for a script."""
    return getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "")


def set_up_task() -> None:
    """In a worker of Spark's: spare what is imported by now the garbage collection that follows each task, some 40 ms
    of CPU time (source: `gc.collect` in pyspark/daemon.py). Garbage that is there at the worker's first task stays."""
    if main_module().startswith("pyspark.") and not gc.get_freeze_count():
        gc.freeze()
    if sys.platform == "linux":
        _reserve_little()


def _reserve_little() -> None:
    """`spark.executor.pyspark.memory` limits the addresses that a process reserves, whether it uses them or not. By
    default Arrow reserves a gigabyte, and each thread 8 MB for its stack and 64 MB for glibc's malloc."""
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    import ctypes

    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    threading.stack_size(_STACK_BYTES)
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_ARENA_MAX, 1)


def show_log(level: int | None = None) -> None:
    """In a process of Spark's, where nobody sets up logging: this project's log on standard error, in the form that
    `spark_log` finds in Spark's output. From `level` on; None: as before, at first warnings."""
    loggers = [logging.getLogger(name) for name in _PACKAGES]
    if not main_module().startswith("pyspark.") or logging.getLogger().handlers:
        return
    if level is None and loggers[0].handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for logger in loggers:
        logger.handlers = [handler]
        logger.setLevel(logging.WARNING if level is None else level)


HAS_ARROW_STREAM_WRITES = hasattr(datasource, "DataSourceStreamArrowWriter")

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import ReadMinRows as ReadMinRows
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow
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
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
