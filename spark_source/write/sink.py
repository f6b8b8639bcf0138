"""The writers that Spark drives: thin shells around what a task does.

Spark makes a writer on the driver, where wrong columns and options show, and sends a copy of it to each task. For a
batch write that is when `save` is called; a streaming query calls nothing before its first micro-batch, and makes a
writer for each of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_source.engine import HAS_ARROW_STREAM_WRITES, VERSION, DataSourceStreamArrowWriter
from spark_source.options.sink_options import SinkOptions
from spark_source.write.sink_columns import SinkColumns
from spark_source.write.task_write import describe, write_rows
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["TubeBatchWriter", "TubeStreamWriter", "check_streams"]

_log = logging.getLogger(__name__)

Messages = Sequence[WriterCommitMessage | None]
"""What each task reported; None for one that failed."""


class _Writer:
    """What both have in common: what travels to the tasks, and what they do. Opens nothing on the driver."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._options, self._columns, iterator)


class TubeBatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("tubeclient")`."""

    def commit(self, messages: Messages) -> None:
        _log.info("written: %s", describe(messages))

    def abort(self, messages: Messages) -> None:
        _log.warning("the write failed; tasks that had ended stay written: %s", describe(messages))


class TubeStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("tubeclient")`."""

    def commit(self, messages: Messages, batchId: int) -> None:
        _log.debug("batch %d written: %s", batchId, describe(messages))

    def abort(self, messages: Messages, batchId: int) -> None:
        _log.warning(
            "batch %d failed and will send again what tasks that had ended have written: %s",
            batchId,
            describe(messages),
        )


def check_streams() -> None:
    """Raise ConfigurationError where Spark hands rows of streams to Python sinks one by one only."""
    if not HAS_ARROW_STREAM_WRITES:
        raise ConfigurationError(f"writeStream to tubeclient needs Spark 4.1; this is {VERSION}. Write in foreachBatch")
